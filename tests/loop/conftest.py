"""A lab for tests that use a client: the program runs in a thread."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loop.program import ThreadLab
from tests.process.model_server import ModelServer


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[ThreadLab]:
    with ModelServer() as server:
        yield ThreadLab(tmp_path, server)
