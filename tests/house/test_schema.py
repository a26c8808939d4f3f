"""The published schema is current."""

import pytest

from scripts.make_schema import FOLDER, files


@pytest.mark.parametrize("name", files())
def test_a_published_schema_is_current(name: str) -> None:
    assert (FOLDER / name).read_text() == files()[name], "run scripts/make_schema.py"


def test_no_schema_is_left_over() -> None:
    others = {"models.schema.json"}
    assert {path.name for path in FOLDER.iterdir()} - others == set(files())
