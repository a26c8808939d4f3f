"""A ground for each test."""

from pathlib import Path

import pytest

from tests.examples.ground import Ground


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)
