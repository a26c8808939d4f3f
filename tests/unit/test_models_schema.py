"""The JSON Schema of models.json: current, complete, and of one mind with the reader."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from ludolf.config.models.models_file import ModelEntry, ProviderEntry, read_models
from ludolf.config.models.models_schema import FILE, models_schema, schema_text
from ludolf.config.settings.files import read_object

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "models.md"
AGAIN = "make it again: python scripts/make_models_schema.py"
LOCAL = {"baseUrl": "http://h", "api": "openai-completions", "apiKey": "k"}


def is_valid(document: Any) -> bool:
    return bool(jsonschema_rs.is_valid(models_schema(), document))


def example() -> str:
    found = re.search(r"```jsonc\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_published_files_are_what_the_types_say() -> None:
    for path in (FILE, ROOT / "docs" / "schema" / "models.schema.json"):
        assert path.read_text() == schema_text(), AGAIN


def test_the_schema_is_itself_a_valid_schema_with_a_text_for_every_flag() -> None:
    assert jsonschema_rs.meta.is_valid(models_schema())
    flags = models_schema()["$defs"]["Compat"]["properties"]
    assert [name for name, rule in flags.items() if not rule.get("description")] == []


def test_every_flag_that_a_provider_asks_for_by_name_is_in_the_schema() -> None:
    known = models_schema()["$defs"]["Compat"]["properties"]
    asked = set()
    for source in (ROOT / "src/ludolf/ai/providers").rglob("*.py"):
        asked |= set(re.findall(r'flag\([\w.]+, "(\w+)"', source.read_text()))
    assert asked
    assert asked - set(known) == set()


@pytest.mark.parametrize(
    ("provider", "valid"),
    [
        ({**LOCAL, "models": [{"id": "m"}]}, True),
        ({**LOCAL, "headers": {"X": None}, "unknown": 1}, True),
        ({**LOCAL, "models": [{"id": "m", "thinkingLevelMap": {"high": None}}]}, True),
        (
            {"modelOverrides": {"m": {"cost": {"input": 1}, "compat": {"thinkingFormat": "zai"}}}},
            True,
        ),
        ({**LOCAL, "baseUrl": 5}, False),
        ({**LOCAL, "models": [{"name": "n"}]}, False),
        ({**LOCAL, "models": [{"id": ""}]}, False),
        ({**LOCAL, "models": [{"id": "m", "input": ["audio"]}]}, False),
        ({**LOCAL, "models": [{"id": "m", "cost": {"input": -1}}]}, False),
        ({**LOCAL, "headers": {"X": 3}}, False),
        ({**LOCAL, "oauth": "other"}, False),
    ],
)
def test_schema_and_reader_agree(tmp_path: Path, provider: dict[str, Any], valid: bool) -> None:
    document = {"providers": {"a": provider}}
    (tmp_path / "models.json").write_text(json.dumps(document))
    assert is_valid(document) is valid
    assert (read_models(tmp_path / "models.json").errors == ()) is valid


@pytest.mark.parametrize(
    "model",
    [
        {"id": "m", "contextWindow": 0},
        {"id": "m", "thinkingLevelMap": {"huge": "x"}},
        {"id": "m", "compat": {"maxTokensField": "most"}},
    ],
)
def test_an_editor_is_told_more_than_makes_the_reader_refuse(model: dict[str, Any]) -> None:
    assert not is_valid({"providers": {"a": {**LOCAL, "models": [model]}}})


def test_the_example_of_the_guide_is_valid_and_means_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_text(example())
    assert is_valid(read_object(path, relaxed=True))
    found = read_models(path)
    assert found.errors == ()
    assert set(found.providers) == {"lab", "anthropic"}
    (model,) = found.providers["lab"].models
    assert model.context_window == 262144
    assert model.cost is not None
    assert model.cost.tiers is not None


def test_the_example_of_the_guide_shows_nearly_every_key() -> None:
    text = example()
    shown = set(re.findall(r'"(\w+)":', text))
    keys = {
        field for kind in (ProviderEntry, ModelEntry) for field in kind.__struct_encode_fields__
    }
    assert keys - shown == {"oauth"}
