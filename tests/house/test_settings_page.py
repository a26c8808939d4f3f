"""The documentation lists the settings that have no effect."""

import re

import msgspec

from ludolf.config.settings.settings import WITHOUT_EFFECT, Settings
from tests.house.source import ROOT

PAGE = ROOT / "docs/migrating-from-pi.md"
HEADING = "### Accepted for compatibility, no effect\n"


def test_the_page_lists_exactly_the_settings_without_effect() -> None:
    section = PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE)) == WITHOUT_EFFECT


def test_settings_without_effect_are_validated() -> None:
    assert not [name for name in WITHOUT_EFFECT if not _is_field(Settings, name)]


def _is_field(kind: object, name: str) -> bool:
    first, _, rest = name.partition(".")
    assert isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    return first in types and (not rest or _is_field(types[first], rest))
