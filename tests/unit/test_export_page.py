"""The page of a session: what it shows, that it is inert, that it grows only with the session."""

import base64
import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ludolf.page.html import export_html
from ludolf.page.page import _parts, render_page
from ludolf.page.page_model import story_of
from tests.export_page import (
    ATTACKS,
    Reader,
    Spec,
    answer,
    call,
    entry,
    header,
    hostile_lines,
    message,
    page_of,
    result,
    session_of,
    text,
)

PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"

IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/gif"}
THOUGHT = {"type": "thinking", "thinking": "Hm, hard"}
RUN = {"command": "make", "output": "ok", "exitCode": 2, "cancelled": False, "truncated": False}
RUN_MAKE = call("bash", "c", command="make")
COMPACTION = {"summary": "Short *form*", "firstKeptEntryId": "u3", "tokensBefore": 120_000}


def _conversation(page: str) -> str:
    start = page.index('id="conversation"')
    return page[start : page.index('<footer class="colophon"')]


def _data(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Reader(page).scripts[1])
    return found


def _story(folder: Path) -> str:
    return page_of(
        folder,
        entry("m1", None, "model_change", provider="anthropic", modelId="claude"),
        message("u1", "m1", "user", content=[text("Fix **it**"), IMAGE]),
        answer("a1", "u1", THOUGHT, text("Looking."), call("edit", "c1", path="/project/a.py")),
        result("r1", "a1", "Done", tool="edit", details={"diff": "-1 old\n+1 new"}),
        answer("a2", "r1", text("First try")),
        message("u2", "a2", "user", content="No"),
        answer("a3", "u2", text("left behind")),
        message("u3", "a2", "user", content="Yes"),
        message("b1", "u3", "bashExecution", **RUN),
        entry("k1", "b1", "compaction", **COMPACTION),
        entry("n1", "k1", "session_info", name="My work"),
        entry("l1", "n1", "label", targetId="a2", label="good point"),
        answer("a4", "l1", text("Final `answer`")),
    )


# ---------------------------------------------------------------- content


def test_the_active_branch_stands_in_the_page_without_any_script(tmp_path: Path) -> None:
    shown = _conversation(_story(tmp_path))
    assert re.findall(r'id="entry-(\w+)"', shown) == [
        "m1", "u1", "a1", "r1", "a2", "u3", "b1", "k1", "n1", "l1", "a4",
    ]  # fmt: skip
    assert "Fix <strong>it</strong>" in shown
    assert "Final <code>answer</code>" in shown
    assert "Compacted from 120k tokens" in shown
    assert "Model: anthropic/claude" in shown
    assert '<span class="label">good point</span>' in shown


def test_other_branches_wait_in_templates(tmp_path: Path) -> None:
    page = _story(tmp_path)
    waiting = re.findall(r'<template id="t-(\d+)"><article [^>]*id="entry-(\w+)"', page)
    assert waiting == [("5", "u2"), ("6", "a3")]
    assert "left behind" not in _conversation(page).replace(">No<", "")


def test_a_fork_lists_its_branches_and_marks_the_shown_one(tmp_path: Path) -> None:
    shown = _conversation(_story(tmp_path))
    assert "2 branches from here" in shown
    assert '<a href="#entry-u2" data-go="5"><b>1</b> No</a>' in shown
    assert '<a href="#entry-u3" data-go="7" aria-current="true"><b>2</b> Yes</a>' in shown


def test_a_tool_call_stands_with_its_result(tmp_path: Path) -> None:
    shown = _conversation(_story(tmp_path))
    card = shown[shown.index('id="entry-r1"') : shown.index('id="entry-a2"')]
    assert '<span class="name">edit</span><span class="title">a.py</span>' in card
    assert '<span class="d-add" data-n="1">new</span>' in card
    assert shown.count('<details class="call') == 2


def test_a_call_without_result_is_shown_where_it_was_made(tmp_path: Path) -> None:
    page = page_of(tmp_path, answer("a1", None, call("bash", "c1", command="sleep 9")))
    assert '<details class="call pending" open>' in page
    assert "sleep 9" in page


def test_a_repeated_call_id_belongs_to_the_latest_call(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        answer("a1", None, call("bash", "c", command="first")),
        result("r1", "a1", "one", call_id="c"),
        answer("a2", "r1", call("bash", "c", command="second")),
        result("r2", "a2", "two", call_id="c"),
    )
    titles = re.findall(r'<span class="title">(\w+)</span>', page)
    assert titles == ["first", "second"]


def test_thinking_is_folded_and_images_are_inside(tmp_path: Path) -> None:
    reader = Reader(_story(tmp_path))
    assert [attrs.get("open") for attrs in reader.having("details", "thinking")] == [None]
    assert [attrs["src"] for attrs in reader.having("img")] == [f"data:image/gif;base64,{PIXEL}"]


def test_failures_are_told(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        answer("a1", None, text("x"), stopReason="error", errorMessage="429 <busy>"),
        answer("a2", "a1", text("x"), stopReason="aborted"),
        answer("a3", "a2", text("x"), stopReason="length"),
        answer("a4", "a3", call("bash", "c", command="x")),
        result("r4", "a4", "", call_id="c", isError=True),
    )
    assert "Error: 429 &lt;busy&gt;" in page
    assert "Stopped before it was finished" in page
    assert "Cut off at the limit of its length" in page
    assert '<details class="call failed" open>' in page


def test_the_top_tells_what_the_session_took(tmp_path: Path) -> None:
    page = _story(tmp_path)
    top = page[page.index('<section class="summary">') : page.index('id="conversation"')]
    assert '<h1 dir="auto">My work</h1>' in top
    for figure in (
        "<b>3</b> <span>prompts</span>",
        "<b>4</b> <span>answers</span>",
        "<b>1</b> <span>tool call</span>",
        "<b>400</b> <span>tokens in</span>",
        "<b>80</b> <span>tokens out</span>",
        "<b>12k</b> <span>from cache</span>",
        "<b>$0.050</b> <span>cost</span>",
        "<b>2</b> <span>branches</span>",
    ):
        assert figure in top


def test_each_answer_tells_its_tokens_and_cost(tmp_path: Path) -> None:
    shown = _conversation(_story(tmp_path))
    line = "100 in · 20 out · 3.0k cached · context 3.1k · $0.013"
    assert shown.count(f'<footer class="spent">{line}</footer>') == 3


def test_the_chart_draws_context_cost_and_compactions(tmp_path: Path) -> None:
    page = _story(tmp_path)
    reader = Reader(page)
    assert [attrs["class"] for attrs in reader.having("path") if "class" in attrs] == [
        "full", "area", "context", "cost", "cut",
    ]  # fmt: skip
    assert [point[0] for point in _data(page)["chart"]] == [2, 4, 12]


def test_the_system_prompt_and_the_tools_are_folded_into_the_top(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        message("u1", None, "user", content="x"),
        system_prompt="Be *kind*",
        tools=[Spec("t1")],
    )
    assert "<summary>System prompt</summary>" in page
    assert "Be <em>kind</em>" in page
    assert "<summary>1 tool</summary>" in page
    assert "<small>t1, required</small>" in page


def test_a_skill_is_folded_into_its_prompt(tmp_path: Path) -> None:
    asked = '<skill name="review" location="/s">\nRules\n</skill>\n\nLook at this'
    page = page_of(tmp_path, message("u1", None, "user", content=asked))
    assert "<summary>Skill review</summary>" in page
    assert _data(page)["texts"] == ["review: Look at this"]


def test_unknown_entries_and_messages_are_kept(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        entry("o1", None, "novelty", data={"k": "inner"}),
        message("o2", "o1", "developer", content=[text("hello *you*")]),
        message("o3", "o2", "assistant", content=[text("no usage")]),
        message("o4", "o3", "toolResult", content=7),
    )
    shown = Reader(_conversation(page)).text
    for words in ("Entry of type novelty", "inner", "developer", "hello you", "no usage"):
        assert words in shown


def test_the_data_of_the_tree_names_every_entry(tmp_path: Path) -> None:
    data = _data(_story(tmp_path))
    assert data["ids"][:3] == ["m1", "u1", "a1"]
    assert data["parents"] == [-1, 0, 1, 2, 3, 4, 5, 4, 7, 8, 9, 10, 11]
    assert data["kinds"] == "muatauaubcqqa"
    assert data["labels"] == {"4": "good point"}
    assert data["leaf"] == 12


def test_the_session_file_is_inside_the_page(tmp_path: Path) -> None:
    lines = [message("u1", None, "user", content="a <b>"), answer("a1", "u1", text("ü"))]
    assert _file_inside(page_of(tmp_path, *lines)) == [header(), *lines]


def _make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(path.read_bytes() + b'{"type":"custom"}\n'),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        Path.unlink,
        _make_pipe,
    ],
    ids=["grown", "cut", "removed", "pipe"],
)
def test_a_file_that_another_program_changed_is_not_inside_the_page(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    lines = [message("u1", None, "user", content="a"), answer("a1", "u1", text("ü"))]
    session = session_of(tmp_path, *lines)
    assert session.path is not None
    change(session.path)
    page = export_html(session, tmp_path / "page.html").read_text()
    assert _file_inside(page) == [header(), *lines]


def _file_inside(page: str) -> list[Any]:
    packed = Reader(page).scripts[2]
    unpacked = gzip.decompress(base64.b64decode(packed)).decode()
    return [json.loads(line) for line in unpacked.splitlines()]


def test_several_roots_are_offered_above_the_conversation(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        message("u1", None, "user", content="one"),
        message("u2", None, "user", content="two"),
    )
    before = page[: page.index('id="conversation"')]
    assert "2 branches from here" in before


def test_a_session_whose_leaf_is_before_everything_shows_an_empty_branch(tmp_path: Path) -> None:
    session = session_of(tmp_path, message("u1", None, "user", content="one"))
    session.branch_to(None)
    page = "".join(render_page(story_of(session.header, session.entries(), session.leaf)))
    assert Reader(page).wrong == []
    assert 'id="entry-u1"' not in _conversation(page)


# ---------------------------------------------------------------- safety


@pytest.mark.parametrize("evil", ATTACKS, ids=range(len(ATTACKS)))
def test_nothing_in_a_session_becomes_active(evil: str, tmp_path: Path) -> None:
    page = page_of(tmp_path, *hostile_lines(evil), system_prompt=evil, tools=[Spec(evil)])
    reader = Reader(page)
    assert reader.wrong == []
    parts = _parts()
    assert reader.styles == [parts.style]
    assert [reader.scripts[0], reader.scripts[3:]] == [parts.boot, [parts.script]]
    assert re.fullmatch("[A-Za-z0-9+/=]+", reader.scripts[2])
    assert len(json.loads(reader.scripts[1])["ids"]) == len(hostile_lines(evil)) - 1
    own = [
        attrs["id"]
        for tag, attrs in reader.tags
        if not attrs.get("id", "entry-").startswith("entry-")
    ]
    assert len(own) == len(set(own))


def test_hostile_markup_is_still_readable(tmp_path: Path) -> None:
    page = page_of(tmp_path, *hostile_lines("<script>window.pwned=1</script>"))
    assert Reader(page).text.count("<script>window.pwned=1</script>") > 40


def test_the_policy_allows_our_own_style_and_script_only(tmp_path: Path) -> None:
    reader = Reader(_story(tmp_path))
    policy = next(attrs["content"] for attrs in reader.having("meta") if "http-equiv" in attrs)

    def digest(code: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"

    boot, _, _, script = reader.scripts
    assert policy.split("; ") == [
        "default-src 'none'",
        "img-src data:",
        f"style-src {digest(reader.styles[0])}",
        f"script-src {digest(boot)} {digest(script)}",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]


def test_the_script_makes_no_markup_from_text_and_asks_for_nothing() -> None:
    script = _parts().boot + _parts().script
    makes = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function"
    asks = r"fetch\(|XMLHttp|import\(|WebSocket|EventSource|sendBeacon"
    assert re.findall(f"{makes}|{asks}", script) == []


def test_the_template_loads_nothing() -> None:
    parts = _parts()
    assert re.findall(r"https?://|url\(|@import", parts.frame + parts.style) == []


# ---------------------------------------------------------------- size


def _many(folder: Path, count: int) -> int:
    """The length of the page of a session with so many entries."""
    parent: str | None = None
    lines = []
    for number in range(count // 4):
        names = [f"{letter}{number}" for letter in "uarz"]
        lines += [
            message(names[0], parent, "user", content=f"Do **step** {number}"),
            answer(names[1], names[0], text("Some `code` and words. " * 5), RUN_MAKE),
            result(names[2], names[1], "line of output\n" * 30, call_id="c"),
            answer(names[3], names[2], text("Done.")),
        ]  # fmt: skip
        parent = names[3] if number % 50 else parent
    return len(page_of(folder, *lines))


def test_the_page_grows_with_the_session_and_no_faster(tmp_path: Path) -> None:
    small, large = _many(tmp_path, 1_000), _many(tmp_path, 10_000)
    assert large < 11 * small


def test_a_fork_with_thousands_of_branches_stays_small(tmp_path: Path) -> None:
    lines = [message(f"u{number}", "root", "user", content="x") for number in range(3_000)]
    page = page_of(tmp_path, message("root", None, "user", content="r"), *lines)
    assert "and 2,960 more in the tree" in page
    assert len(page) < 3_000 * 800


def test_deeply_nested_data_does_not_become_a_page_of_spaces(tmp_path: Path) -> None:
    nested: Any = []
    for _ in range(400):
        nested = [nested]
    page = page_of(tmp_path, answer("a1", None, call("odd", "c1", deep=nested)))
    assert len(page) < len(page_of(tmp_path, answer("a1", None, call("odd", "c1")))) + 10_000


def test_numbers_beyond_reason_are_not_spelled_out(tmp_path: Path) -> None:
    odd = {**COMPACTION, "tokensBefore": 10**400}
    assert "Compacted from ? tokens" in page_of(tmp_path, entry("k1", None, "compaction", **odd))


def test_a_deep_chain_is_no_problem(tmp_path: Path) -> None:
    lines = [
        message(f"u{number}", f"u{number - 1}" if number else None, "user", content="x")
        for number in range(5_000)
    ]
    assert page_of(tmp_path, *lines).count("<article") == 5_000
