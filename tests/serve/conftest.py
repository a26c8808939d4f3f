"""A lab for tests with a server in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.harness import Lab
from tests.process.model_server import ModelServer


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with ModelServer() as server:
        yield Lab(tmp_path, server)
