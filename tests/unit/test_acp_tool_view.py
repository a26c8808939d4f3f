"""Titles, kinds, locations and diffs of tool calls."""

from pathlib import Path
from typing import Any

import pytest

from ludolf.agent.tool import ToolOutput, text_output
from ludolf.ai.messages import Image, Text
from ludolf.protocol.acp.call_sources import ToolFacts
from ludolf.protocol.acp.tool_view import (
    MAX_DIFF,
    hunks_of,
    preview,
    raw_details,
    raw_value,
    result_content,
    tool_title,
    view_call,
)
from ludolf.tools.diff import Comparison

CWD = Path("/w")


@pytest.mark.parametrize(
    ("name", "args", "title", "kind", "locations"),
    [
        ("read", {"path": "a.py"}, "Read a.py", "read", [{"path": "/w/a.py"}]),
        (
            "read",
            {"path": "@a.py", "offset": 5, "limit": 10},
            "Read @a.py:5-14",
            "read",
            [{"path": "/w/a.py", "line": 5}],
        ),
        ("read", {"path": "wiki://start"}, "Read wiki://start", "read", []),
        ("write", {"path": "../b", "content": ""}, "Write ../b", "edit", [{"path": "/b"}]),
        ("edit", {"path": "file:///x%20y"}, "Edit file:///x%20y", "edit", [{"path": "/x y"}]),
        ("bash", {"command": "make\n\ttest"}, "make test", "execute", []),
        ("grep", {"pattern": "a+", "path": "src"}, "Search for a+ in src", "search", ["/w/src"]),
        ("find", {"pattern": "*.py"}, "Find *.py", "search", []),
        ("ls", {}, "List .", "search", []),
        ("task", {"tasks": []}, "task", "think", []),
        ("todo", {"op": "view"}, "todo", "other", []),
        ("mcp__git_hub__list_prs", {"path": "x"}, "list_prs (git_hub)", "other", []),
        ("read", {"path": 5, "offset": "x"}, "read", "read", []),
    ],
)
def test_a_call_has_a_title_a_kind_and_absolute_places(
    name: str, args: dict[str, Any], title: str, kind: str, locations: list[Any]
) -> None:
    view = view_call(name, args, CWD)
    places = [{"path": place} if isinstance(place, str) else place for place in locations]
    assert (view.title, view.kind, list(view.locations)) == (title, kind, places)


def test_tools_of_others_show_their_label_and_whether_they_only_read() -> None:
    view = view_call("mcp__a__b", {}, CWD, ToolFacts("Bee", read_only=True))
    assert (view.title, view.kind) == ("Bee", "read")
    assert tool_title("mcp__a__b", ToolFacts("mcp__a__b")) == "b (a)"


def test_a_title_is_short_and_shows_hidden_characters() -> None:
    title = view_call("bash", {"command": "rm \u202e x" + "y" * 100_000}, CWD).title
    assert len(title) == 200 and "\u202e" not in title


def test_a_preview_of_an_edit_shows_the_lines_around_each_change() -> None:
    whole = "".join(f"line {number}\n" for number in range(1, 21))
    edits = [
        {"oldText": "line 10", "newText": "LINE 10"},
        {"oldText": "line 1\n", "newText": ""},
        {"oldText": "not there", "newText": "new"},
    ]
    shown = preview("edit", {"path": "a", "edits": edits}, CWD, lambda path: whole)
    assert [block["oldText"] for block in shown] == [
        "line 7\nline 8\nline 9\nline 10\nline 11\nline 12\nline 13\n",
        "line 1\nline 2\nline 3\nline 4\n",
        "not there",
    ]
    assert shown[0]["newText"] == shown[0]["oldText"].replace("line 10", "LINE 10")
    assert shown[1]["newText"] == "line 2\nline 3\nline 4\n"
    assert {block["path"] for block in shown} == {"/w/a"}


def test_a_preview_of_a_write_has_the_old_text_or_null() -> None:
    args = {"path": "a", "content": "new"}
    new = {"type": "diff", "path": "/w/a", "oldText": None, "newText": "new"}
    assert preview("write", args, CWD, lambda path: None) == [new]
    assert preview("write", args, CWD, lambda path: "old") == [{**new, "oldText": "old"}]


def test_a_preview_of_a_command_is_the_command() -> None:
    (block,) = preview("bash", {"command": "echo '```'"}, CWD, lambda path: None)
    assert block["content"]["text"] == "````sh\necho '```'\n````"
    assert preview("grep", {"pattern": "x"}, CWD, lambda path: None) == []


def test_a_large_change_is_a_line_of_text() -> None:
    args = {"path": "a", "content": "x" * (MAX_DIFF + 1)}
    (block,) = preview("write", args, CWD, lambda path: None)
    assert block["type"] == "content" and len(block["content"]["text"]) < 200


def test_the_result_of_an_edit_is_a_diff_for_each_place_of_its_patch() -> None:
    old = "".join(f"{number}\n" for number in range(40)) + "end"
    new = old.replace("\n5\n", "\nfive\n").replace("end", "END")
    patch = Comparison(old, new).patch("a")
    output = text_output("done", {"patch": patch, "firstChangedLine": 6})
    shown = result_content("edit", {"path": "a"}, output, CWD, None)
    assert [(block["oldText"], block["newText"]) for block in shown] == hunks_of(patch)
    assert [block["oldText"] for block in shown] == [
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
        "36\n37\n38\n39\nend",
    ]
    assert shown[1]["newText"] == "36\n37\n38\n39\nEND"


def test_other_results_are_shown_as_they_are() -> None:
    parts = (Text(text="a"), Image(data="AA", mime_type="image/png"))
    shown = result_content("read", {"path": "a"}, ToolOutput(content=parts), CWD, None)
    assert [block["content"]["type"] for block in shown] == ["text", "image"]


def test_large_arguments_are_cut_and_small_ones_are_kept() -> None:
    small = {"path": "a", "content": "x" * 10_000}
    assert raw_value(small) is small
    large = raw_value({"path": "a", "list": ["y" * 300_000], "n": 1})
    assert large["path"] == "a" and large["n"] == 1 and len(large["list"][0]) < 5_000


def test_details_of_a_command_do_not_repeat_its_output() -> None:
    details = {"truncation": {"content": "x" * 1000, "totalLines": 3}, "fullOutputPath": "/tmp/x"}
    expected = {"truncation": {"totalLines": 3}, "fullOutputPath": "/tmp/x"}
    assert raw_details("bash", details) == expected
