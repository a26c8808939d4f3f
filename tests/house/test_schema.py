"""What is made of the types is current: the published schema, and the client that waits."""

import pytest

from scripts.make_schema import FOLDER, files
from scripts.make_sync_client import FOLDER as CLIENT
from scripts.make_sync_client import GROUPS, blocking


@pytest.mark.parametrize("name", files())
def test_a_published_schema_is_current(name: str) -> None:
    assert (FOLDER / name).read_text() == files()[name], "run scripts/make_schema.py"


def test_no_schema_is_left_over() -> None:
    others = {"models.schema.json"}
    assert {path.name for path in FOLDER.iterdir()} - others == set(files())


@pytest.mark.parametrize("name", GROUPS)
def test_the_client_that_waits_is_current(name: str) -> None:
    made = (CLIENT / "blocking" / f"{name}.py").read_text()
    assert made == blocking(name), "run scripts/make_sync_client.py"


def test_every_group_of_commands_is_made() -> None:
    there = {path.stem for path in (CLIENT / "blocking").glob("*.py")}
    assert there == {*GROUPS, "__init__", "asking"}
