"""Tools are found by their names and descriptions, the best match first."""

import asyncio
from collections.abc import Sequence

import pytest

from ludolf.mcp.definitions import ToolDefinition, tool_name
from ludolf.mcp.search import ToolIndex


def tool(name: str, description: str = "", server: str = "hub") -> ToolDefinition:
    return ToolDefinition(
        server=server,
        tool=name,
        name=tool_name(server, name),
        description=description,
        parameters={},
        digest="",
    )


def found(tools: Sequence[ToolDefinition], query: str, limit: int = 8) -> list[str]:
    index = ToolIndex()
    asyncio.run(index.add(tools))
    return [each.tool for each in index.search(query, limit)]


TOOLS = (
    tool("create_issue", "Opens a ticket in a repository."),
    tool("listPullRequests", "Lists pull requests of a repository."),
    tool("delete", "Deletes an issue, or creates a note about why it cannot."),
    tool("search_code", "Finds text in files."),
    tool("search", "Finds anything."),
    tool("issues", "Shows tickets."),
    tool("weather", "Gives the forecast of a city.", "sky"),
)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("search", ["search", "search_code"]),
        ("mcp__hub__search_code", ["search_code"]),
        ("Search Code", ["search_code"]),
        ("createIssue", ["create_issue"]),
        ("create issue", ["create_issue", "delete"]),
        ("issue", ["create_issue", "issues", "delete"]),
        ("pull request", ["listPullRequests"]),
        ("repositories", ["create_issue", "listPullRequests"]),
        ("forec", ["weather"]),
        ("sky", ["weather"]),
        ("how do I create a ticket", ["create_issue"]),
    ],
)
def test_the_best_match_is_first(query: str, first: list[str]) -> None:
    assert found(TOOLS, query)[: len(first)] == first


def test_words_of_the_name_count_more_than_words_of_the_description() -> None:
    assert found([tool("a", "Sends mail."), tool("mail")], "send mail") == ["a", "mail"]
    assert found([tool("a", "Sends mail."), tool("mail")], "mail") == ["mail", "a"]


def test_equal_matches_are_ordered_by_name_and_limited() -> None:
    tools = [tool(f"item_{at}", "Does it.") for at in (3, 1, 2)]
    assert found(tools, "item") == ["item_1", "item_2", "item_3"]
    assert found(tools, "item", limit=2) == ["item_1", "item_2"]


@pytest.mark.parametrize("query", ["", "   ", "zebra", "\0\ud800", "?!"])
def test_a_query_without_a_match_finds_nothing(query: str) -> None:
    assert found(TOOLS, query) == []


def test_tools_of_a_server_are_replaced_and_removed() -> None:
    async def run() -> None:
        index = ToolIndex()
        await index.add([tool("old"), tool("other", server="sky")])
        await index.add([tool("new")])
        assert (index.search("old"), index.search("new")) == ([], [tool("new")])
        index.remove("hub")
        assert index.search("new") == []
        assert index.search("other") == [tool("other", server="sky")]

    asyncio.run(run())


def test_indexing_lets_other_tasks_run_and_a_removed_server_stays_removed() -> None:
    async def run() -> None:
        index = ToolIndex()
        async with asyncio.TaskGroup() as group:
            adding = group.create_task(index.add([tool(f"item_{at}") for at in range(200)]))
            turns = 0
            while not adding.done():
                turns += 1
                if turns == 3:
                    index.remove("hub")
                await asyncio.sleep(0)
        assert turns > 10
        assert index.search("item") == []

    asyncio.run(run())
