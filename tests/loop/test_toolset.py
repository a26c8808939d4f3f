"""Tools of several sources: which the model knows of, which it may call, what options allow."""

from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.scope import Scope
from ludolf.agent.tool import Tool
from ludolf.ai.builtin.models import scripted_model
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.engine import Engine
from ludolf.engine.features.subagents.agents import Agent
from ludolf.engine.features.subagents.subagent import SubagentTask
from ludolf.engine.toolset import Toolset
from tests.loop.tools import StageTool, nothing

ISSUES, FORKS, CLONE, MAIL = "mcp__git__issues", "mcp__git__forks", "mcp__git__clone", "mcp__mail"
SERVED = (ISSUES, FORKS, CLONE, MAIL)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUDOLF_DIR", str(tmp_path / "agent"))


def made(*names: str) -> list[Tool]:
    return [StageTool(name, nothing) for name in names]


def toolset(root: Path, warnings: list[str] | None = None, **options: Any) -> Toolset:
    heard = warnings if warnings is not None else []
    return build(Options(cwd=root, **options), warn=heard.append).toolset


def declared(tools: Toolset) -> list[str]:
    names = [spec.name for spec in tools.specs()]
    assert names == [tool.name for tool in tools.active()]
    return names[names.index("write") + 1 :] if "write" in names else names


def test_an_undeclared_tool_can_be_called_but_is_not_declared(tmp_path: Path) -> None:
    tools = toolset(tmp_path)
    tools.provide("mcp", made("tool_search", ISSUES, FORKS), undeclared=frozenset({ISSUES, "gone"}))
    assert declared(tools) == ["tool_search", FORKS]
    found = tools.find(ISSUES)
    assert found is not None and found.name == ISSUES
    assert tools.source_of(ISSUES) == "mcp"
    assert tools.find("gone") is None


def test_deferred_tools_follow_all_others_in_the_order_of_their_declaration(tmp_path: Path) -> None:
    tools = toolset(tmp_path)
    names = made("tool_search", ISSUES, FORKS, CLONE)
    everything = frozenset(SERVED)
    tools.provide("mcp", names, undeclared=everything)
    tools.provide("host", made("deploy"))
    before = tools.specs()
    tools.provide("mcp", names, undeclared=everything, deferred=(CLONE, "gone", ISSUES, CLONE))
    assert tools.specs()[: len(before)] == before
    late = tools.specs()[len(before) :]
    assert [(spec.name, spec.deferred) for spec in late] == [(CLONE, True), (ISSUES, True)]
    assert not any(spec.deferred for spec in before)


def test_a_tool_of_two_sources_is_declared_once(tmp_path: Path) -> None:
    tools = toolset(tmp_path)
    tools.provide("mcp", made("tool_search", ISSUES, FORKS), deferred=(ISSUES, FORKS))
    tools.provide("parent", made(ISSUES))
    assert declared(tools) == ["tool_search", ISSUES, FORKS]


def test_undeclared_tools_are_switched_with_the_declared_ones_of_their_source(
    tmp_path: Path,
) -> None:
    tools = toolset(tmp_path)
    names = made("tool_search", ISSUES, FORKS)
    tools.provide("mcp", names, undeclared=frozenset({ISSUES}), deferred=(FORKS,))
    saved = [tool.name for tool in tools.active()]
    tools.set_active(("read",))
    assert [spec.name for spec in tools.specs()] == ["read"]
    assert tools.find(ISSUES) is None and tools.find(FORKS) is None
    tools.provide("mcp", [*names, *made(CLONE)], undeclared=frozenset({ISSUES, CLONE}))
    assert tools.find(CLONE) is None
    tools.provide("mcp", names, undeclared=frozenset({ISSUES}), deferred=(FORKS,))
    tools.set_active(saved)
    assert [spec.name for spec in tools.specs()] == saved
    assert tools.find(ISSUES) is not None and tools.find(FORKS) is not None


@pytest.mark.parametrize(
    ("options", "own", "served"),
    [
        ({}, ["read", "bash", "edit", "write"], SERVED),
        ({"tools": ("read",)}, ["read"], SERVED),
        ({"tools": ("re*", "*d*")}, ["read", "edit", "find"], SERVED),
        ({"tools": ("read", "mcp__git__*")}, ["read"], (ISSUES, FORKS, CLONE)),
        ({"tools": (MAIL,)}, [], (MAIL,)),
        ({"tools": ("mcp__*",), "exclude_tools": ("*mail",)}, [], (ISSUES, FORKS, CLONE)),
        ({"exclude_tools": ("mcp__git__*", "[be]*")}, ["read", "write"], (MAIL,)),
        ({"exclude_tools": ("*",)}, [], ()),
        ({"no_tools": True}, [], ()),
        ({"no_tools": True, "tools": ("mcp__git__f*",)}, [], (FORKS,)),
        ({"no_builtin_tools": True}, [], SERVED),
    ],
)
def test_patterns_of_tools_choose_built_in_tools_and_those_of_servers(
    tmp_path: Path, options: dict[str, Any], own: list[str], served: tuple[str, ...]
) -> None:
    tools = toolset(tmp_path, **options)
    tools.provide("host", made("deploy"))
    tools.provide("mcp", made(ISSUES, FORKS), deferred=(FORKS,))
    tools.provide("more", made(CLONE, MAIL), undeclared=frozenset({CLONE, MAIL}))
    shown = [name for name in (ISSUES, FORKS) if name in served]
    assert [spec.name for spec in tools.specs()] == [*own, "deploy", *shown]
    assert [name for name in SERVED if tools.find(name) is not None] == list(served)


def test_patterns_that_match_no_tool_are_reported_unless_they_name_servers(tmp_path: Path) -> None:
    warnings: list[str] = []
    tools = toolset(tmp_path, warnings, tools=("re*", "task", "mcp__*", "mcp__x__y", "grepp*"))
    tools.provide("mcp", made("tool_search", ISSUES), undeclared=frozenset({ISSUES}))
    tools.report_unknown()
    (warning,) = [text for text in warnings if "allowed tools" in text]
    assert "Unknown in the list of allowed tools: grepp*." in warning
    assert "tool_search." in warning and ISSUES not in warning


def spawned(parent: Engine, root: Path, tools: tuple[str, ...] | None) -> Toolset:
    agent = Agent(name="a", description="", source="bundled", prompt="", tools=tools)
    task = SubagentTask(
        id="1",
        name="One",
        index=0,
        call_id="c",
        agent=agent,
        assignment="",
        context="",
        file=root / "one.jsonl",
        model=scripted_model(),
        level="off",
        wanted=(),
        scope=Scope(),
    )
    return parent.spawn(task).toolset


@pytest.mark.parametrize(
    ("options", "tools", "late"),
    [
        ({}, None, SERVED),
        ({}, ("read",), ()),
        ({}, ("read", "mcp__git__*"), (ISSUES, FORKS, CLONE)),
        ({"tools": ("read", "mcp__mail")}, None, (MAIL,)),
        ({"tools": ("read", "mcp__mail")}, ("mcp__git__*",), ()),
        ({"tools": ("read",)}, ("read", "mcp__mail"), (MAIL,)),
        ({"no_tools": True}, None, ()),
    ],
)
async def test_a_subagent_may_call_what_its_parent_and_its_definition_allow(
    tmp_path: Path, options: dict[str, Any], tools: tuple[str, ...] | None, late: tuple[str, ...]
) -> None:
    parent = build(Options(cwd=tmp_path, **options), warn=lambda text: None)
    parent.toolset.provide("mcp", made(*SERVED), inherited=False)
    child = spawned(parent, tmp_path, tools)
    assert [name for name in SERVED if child.find(name) is not None] == []
    # A feature that serves the subagent itself is held to the limits of both.
    child.provide("mcp", made(*SERVED))
    assert [name for name in SERVED if child.find(name) is not None] == list(late)
