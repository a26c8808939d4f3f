"""Stages for conformance tests: each test runs in every dialect that its requirements hold in."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.proof import dialects_of, groups_of
from tests.conformance.sections import ALL
from tests.conformance.stage import Stage
from tests.process.model_server import ModelServer

MakeStage = Callable[[], Stage]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    groups = groups_of(metafunc.function)
    if not groups:
        return
    assert "dialect" in metafunc.fixturenames, f"{metafunc.function.__name__} takes no dialect"
    found = {dialect for ids in groups for dialect in dialects_of(ids)}
    dialects = [dialect for dialect in ALL if dialect in found]
    metafunc.parametrize("dialect", dialects, indirect=True, scope="module")


@pytest.fixture(scope="module")
def dialect(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def make_stage(dialect: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeStage]:
    """For stories that many tests read."""
    with ExitStack() as stack:

        def make() -> Stage:
            server = stack.enter_context(ModelServer())
            return Stage(tmp_path_factory.mktemp("stage"), server, dialect)

        yield make


@pytest.fixture
def stage(dialect: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """For a test that plays alone."""
    with ModelServer() as server:
        stage = Stage(tmp_path, server, dialect)
        stage.forks = request.node.get_closest_marker("exec") is None
        yield stage
