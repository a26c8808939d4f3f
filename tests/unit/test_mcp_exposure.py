"""Definitions are declared while they are few; otherwise a search finds them."""

from typing import Any

import pytest

from ludolf.mcp.definitions import ToolDefinition, tool_name
from ludolf.mcp.exposure import ExposedTools, ServerTools, expose, read_exposure

WINDOW = 100_000  # 2 % are 8,000 bytes


def tools_of(server: str, *names: str, size: int = 100) -> tuple[ToolDefinition, ...]:
    return tuple(
        ToolDefinition(
            server=server,
            tool=name,
            name=tool_name(server, name),
            description="x" * size,
            parameters={},
            digest="",
        )
        for name in names
    )


def names(found: ExposedTools) -> dict[str, list[str]]:
    return {
        kind: [tool.tool for tool in getattr(found, kind)]
        for kind in ("direct", "deferred", "hidden")
        if getattr(found, kind)
    }


def test_few_definitions_are_direct() -> None:
    servers = [ServerTools(tools=tools_of("a", "one")), ServerTools(tools=tools_of("b", "two"))]
    assert names(expose(servers, WINDOW)) == {"direct": ["one", "two"]}


def test_the_largest_servers_are_deferred_until_the_others_fit() -> None:
    servers = [
        ServerTools(tools=tools_of("a", "a1", "a2", size=2000)),
        ServerTools(tools=tools_of("b", "b1", "b2", "b3", size=2000)),
        ServerTools(tools=tools_of("c", "c1", size=500)),
    ]
    assert names(expose(servers, WINDOW)) == {
        "direct": ["a1", "a2", "c1"],
        "deferred": ["b1", "b2", "b3"],
    }
    assert names(expose(servers, WINDOW // 10)) == {
        "direct": ["c1"],
        "deferred": ["a1", "a2", "b1", "b2", "b3"],
    }


def test_settings_of_servers_and_tools_win() -> None:
    servers = [
        ServerTools(
            tools=tools_of("a", "get_one", "get_two", "put", "drop", size=9000),
            exposure="deferred",
            tool_exposure={
                "get_*": "direct",
                "get_two": "hidden",
                "*": "auto",
                "mcp__a__d*": "hidden",
            },
        ),
        ServerTools(tools=tools_of("b", "b1"), exposure="hidden"),
        ServerTools(tools=tools_of("c", "c1", size=9000), exposure="direct"),
    ]
    assert names(expose(servers, WINDOW)) == {
        "direct": ["get_one", "c1"],
        "deferred": ["put"],
        "hidden": ["get_two", "drop", "b1"],
    }


@pytest.mark.parametrize(
    ("value", "exposure"),
    [("direct", "direct"), ("codemode", "deferred"), ("auto", "auto"), ("odd", None), ([], None)],
)
def test_words_of_configuration_files_are_read(value: Any, exposure: str | None) -> None:
    assert read_exposure(value) == exposure
