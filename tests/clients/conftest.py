"""A ground for each trial of a client."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.ground import Ground
from tests.process.harness import Lab
from tests.process.model_server import ModelServer


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ModelServer() as server:
        made = Ground(Lab(tmp_path, server))
        made.play()
        yield made
