"""The documentation lists all settings, and which of them have no effect."""

import re

import msgspec

from ludolf.config.settings.arguments import SWITCHES, VALUES
from ludolf.config.settings.reference import settings_table
from ludolf.config.settings.settings import WITHOUT_EFFECT, Settings
from ludolf.config.settings.settings_help import HELP, PRECEDENCE
from scripts.make_settings_page import PAGE as CONFIGURATION
from scripts.make_settings_page import updated
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


def test_every_setting_has_a_help_text_and_no_text_is_left_over() -> None:
    keys = {setting.key for setting in settings_table()}
    assert keys == set(HELP)
    assert set(PRECEDENCE) <= keys


def test_flags_that_take_precedence_exist() -> None:
    flags = {name for names in PRECEDENCE.values() for name in names if name.startswith("--")}
    assert flags <= {*VALUES, *SWITCHES}


def test_the_page_has_the_current_table_of_settings() -> None:
    page = CONFIGURATION.read_text()
    assert updated(page) == page, "run scripts/make_settings_page.py"
