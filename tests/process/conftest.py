"""A lab for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.harness import Lab
from tests.process.model_server import ModelServer


@pytest.fixture
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    with ModelServer() as server:
        lab = Lab(tmp_path, server)
        lab.forks = request.node.get_closest_marker("exec") is None
        yield lab
