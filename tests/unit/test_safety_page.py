"""The page about safety: its settings are valid, its verdicts true, its lists whole."""

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ludolf.config.settings.approval_rules import Approval, CallFacts, judge
from ludolf.config.settings.safety_settings import SandboxSettings, SecretSettings
from ludolf.tools.sandbox import sensitive_paths as places

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "safety.md").read_text()
POLICY = (ROOT / "SECURITY.md").read_text()
_SETTINGS = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
_VERDICTS = re.findall(r"^\| `(\w+)` `(.+)` \| (allow|ask|deny) \|$", PAGE, re.MULTILINE)
_KINDS = {"approval": Approval, "sandbox": SandboxSettings, "secrets": SecretSettings}


def test_the_settings_of_the_page_are_valid() -> None:
    found = [key for each in _SETTINGS for key in each]
    assert sorted(found) == ["approval", "sandbox", "secrets"]
    for each in _SETTINGS:
        for key, value in each.items():
            msgspec.convert(value, _KINDS[key])


@pytest.mark.parametrize(("tool", "argument", "verdict"), _VERDICTS)
def test_a_verdict_of_the_page_is_that_of_its_rules(tool: str, argument: str, verdict: str) -> None:
    say = msgspec.convert(_SETTINGS[0]["approval"], Approval)
    about: dict[str, Any] = {
        "tool": tool,
        "read_only": tool == "read",
        "cwd": "/work",
        "home": "/home/ada",
    }
    if tool == "bash":
        call = CallFacts(**about, command=argument)
    else:
        path = os.path.normpath(os.path.join("/work", argument))
        call = CallFacts(**about, has_path=True, paths=(path,))
    assert judge((say,), call) == verdict


def test_there_are_verdicts_of_every_kind() -> None:
    assert {verdict for _, _, verdict in _VERDICTS} == {"allow", "ask", "deny"}
    assert len(_VERDICTS) > 10


def test_the_page_names_everything_that_is_hidden_or_kept() -> None:
    named = set(re.findall(r"`([^`\n]+)`", PAGE))
    for each in (*places.CREDENTIALS, *places.OWN_CREDENTIALS, *places.PROJECT_SETTINGS):
        assert each in named, each


@pytest.mark.parametrize("text", [PAGE, POLICY])
def test_files_that_the_pages_name_exist(text: str) -> None:
    folder = ROOT / "docs" if text is PAGE else ROOT
    for link in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (folder / link).exists(), link
    for path in re.findall(r"`(tests/[^`]+)`", text):
        assert (ROOT / path).exists(), path
