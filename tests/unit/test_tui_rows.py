"""Entries of a session as rows: every kind, in any shape."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludolf.tui.notices import event_notice
from ludolf.tui.rows import EntryRows
from ludolf.tui.theme import built_in_theme
from tests.terminal_text import HOSTILE, check_rows, texts

PLAIN = built_in_theme("none")
COLOURS = built_in_theme("true", links=True)
CALL = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "/p/x.py"}}


def _message(role: str, content: Any = "", **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, "timestamp": 1, **more}
    return {"type": "message", "id": "1", "parentId": None, "timestamp": "t", "message": message}


def _answer(*content: Any, stop: str = "stop", **more: Any) -> dict[str, Any]:
    model = {"api": "a", "provider": "p", "model": "m", "usage": {}}
    return _message("assistant", list(content), stopReason=stop, **model, **more)


def _entry(kind: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": "1", "parentId": None, "timestamp": "t", **more}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


SKILL = '<skill name="s" location="l">\nlong text\n</skill>\n\ndo it'
PICTURE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("entry", "rows"),
    [
        (_message("user", "hello\n**you**"), ["❯ hello", "  you"]),
        (_message("user", [_text("see"), PICTURE]), ["❯ see", "[image, 3 B]"]),
        (_message("user", SKILL), ["❯ [skill s]", "  do it"]),
        (_answer(_text("# A\n\nb")), ["A", "", "b"]),
        (
            _answer({"type": "thinking", "thinking": "**Plan** all\nthen"}, _text("a")),
            ["· Thinking: Plan all then", "", "a"],
        ),
        (
            _answer({"type": "thinking", "thinking": "", "redacted": True}),
            ["· Thinking, hidden by the provider"],
        ),
        (_answer(CALL, stop="toolUse"), []),
        (_answer(_text("a"), stop="aborted"), ["a", "", "· Stopped before it was finished"]),
        (_answer(stop="length"), ["· Cut off at the limit of its length"]),
        (_answer(stop="error", errorMessage="no\nkey"), ["· Error: no key"]),
        (
            _message("toolResult", [_text("x = 1")], toolCallId="c", toolName="ls", isError=False),
            ["● ls  .", "  x = 1"],
        ),
        (
            _message(
                "bashExecution", command="ls", output="a\nb\n", exitCode=2, cancelled=False,
                truncated=True, excludeFromContext=True,
            ),
            ["! bash  ls  exit 2 · not sent to the model · output shortened", "  a", "  b"],
        ),
        (
            _message("bashExecution", command="x", output="", cancelled=True, truncated=False),
            ["! bash  x  cancelled"],
        ),
        (_entry("custom_message", customType="t", content="*a*", display=True), ["[t]", "a"]),
        (_entry("custom_message", customType="t", content="a", display=False), []),
        (_entry("custom", customType="t", data=1), []),
        (_entry("usage", kind="k"), []),
        (
            _entry("compaction", summary="s", tokensBefore=34_000, firstKeptEntryId="1"),
            ["· Compacted from 34k tokens"],
        ),
        (
            _entry("branch_summary", summary="all\nof it", fromId="2"),
            ["· Summary of the branch left: all of it"],
        ),
        (_entry("model_change", provider="p", modelId="m"), ["· Model: p/m"]),
        (_entry("thinking_level_change", thinkingLevel="high"), ["· Thinking: high"]),
        (_entry("label", targetId="2", label="here"), ["· Label: here"]),
        (_entry("label", targetId="2"), ["· Label removed"]),
        (_entry("session_info", name="Tide"), ["· Session name: Tide"]),
        (_entry("new_kind", name="x"), ["· Entry of type new_kind"]),
        (_message("stranger", "x"), ["· Message of role stranger"]),
        ({"type": "message"}, []),
    ],
)  # fmt: skip
def test_every_kind_of_entry_has_its_rows(entry: dict[str, Any], rows: list[str]) -> None:
    assert texts(EntryRows(PLAIN, 70).rows(entry)) == rows


def test_a_conversation_has_blank_rows_between_entries_but_not_between_notices() -> None:
    entries = EntryRows(PLAIN, 60, cwd="/p")
    rows = [
        *entries.rows(_entry("model_change", provider="p", modelId="m")),
        *entries.rows(_entry("thinking_level_change", thinkingLevel="low")),
        *entries.rows(_message("user", "go"), sender="web"),
        *entries.rows(_answer(_text("ok"), CALL, stop="toolUse")),
        *entries.rows(
            _message("toolResult", [_text("y")], toolCallId="c", toolName="read", isError=False),
            seconds=2,
        ),
        *entries.separation(),
    ]
    assert texts(rows) == [
        *("· Model: p/m", "· Thinking: low", ""),
        *("❯ web:", "  go", "", "ok", "", "● read  x.py  2.0 s", "  y", ""),
    ]


def test_a_streamed_answer_is_not_printed_twice_but_its_calls_are_known() -> None:
    entries = EntryRows(PLAIN, 60, cwd="/p")
    assert entries.rows(_answer(_text("ok"), CALL, stop="aborted"), streamed=True) == [
        "· Stopped before it was finished"
    ]
    result = _message("toolResult", [], toolCallId="c", toolName="read", isError=False)
    assert texts(entries.rows(result)) == ["", "● read  x.py"]


def test_thinking_is_shown_whole_on_request() -> None:
    entries = EntryRows(PLAIN, 60, show_thinking=True)
    assert texts(entries.thinking("a\n\nb")) == ["┊ a", "┊", "┊ b"]


def test_an_entry_with_half_characters_or_too_many_levels_is_still_a_row() -> None:
    entries = EntryRows(PLAIN, 60)
    assert texts(entries.rows(_message("user", "a\ud800b"))) == ["❯ a\ufffdb"]
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    assert texts(entries.rows(_entry("custom", data=deep))) == [
        *("", "· An entry is nested too deeply to be shown"),
    ]


def test_a_notice_is_one_row() -> None:
    rows = EntryRows(PLAIN, 20).rows(_entry("session_info", name="long name\n" * 90))
    assert texts(rows) == ["· Session name: lon…"]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            {
                **{"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3},
                **{"delayMs": 2000, "errorMessage": "busy"},
            },
            "Retry 1 of 3 in 2.0 s: busy",
        ),
        ({"type": "auto_retry_end", "success": True}, None),
        ({"type": "auto_retry_end", "success": False, "finalError": "no"}, "Retries ended: no"),
        (
            {"type": "compaction_start", "reason": "overflow"},
            "Compacting the conversation (overflow)",
        ),
        ({"type": "compaction_end", "aborted": True}, "Compaction stopped"),
        ({"type": "compaction_end", "result": None, "errorMessage": "x"}, "Compaction failed: x"),
        ({"type": "compaction_end", "result": {"summary": "s"}}, None),
        ({"type": "limit_reached", "limit": "cost", "maximum": 2}, "Limit of cost reached: $2.00"),
        (
            {"type": "limit_reached", "limit": "tokens", "maximum": 2e4},
            "Limit of tokens reached: 20k",
        ),
        ({"type": "warning", "message": "w"}, "w"),
        (
            {"type": "extension_error", "extensionPath": "a.py", "event": "e", "error": "x"},
            "Extension a.py failed in e: x",
        ),
        ({"type": "client_joined", "client": "1", "name": "web"}, "web joined"),
        ({"type": "client_left", "client": "1"}, "1 left"),
        ({"type": "server_closing", "seconds": 30}, "The server ends; runs have 30 s to finish"),
        ({"type": "message_update"}, None),
        ({"type": 3}, None),
        ({"type": "auto_retry_start"}, "Retry 0 of 0 in 0.0 s: "),
    ],
)  # fmt: skip
def test_events_are_described_in_one_line(event: dict[str, Any], text: str | None) -> None:
    notice = event_notice(event)
    assert (notice.text if notice is not None else None) == text


NAMES = [
    "type",
    "text",
    "thinking",
    "content",
    "details",
    "diff",
    "path",
    "name",
    "arguments",
    "id",
]
VALUES = st.recursive(
    st.sampled_from([None, True, 3, 1.5, "", "a", HOSTILE, "日本\n" * 9]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = ["message", "custom_message", "compaction", "branch_summary", "label", "model_change"]
ROLES = ["user", "assistant", "toolResult", "bashExecution", "custom"]
FIELDS = [
    "content",
    "toolName",
    "toolCallId",
    "isError",
    "details",
    "command",
    "output",
    "summary",
    "label",
    "customType",
    "display",
    "stopReason",
    "errorMessage",
    "exitCode",
    "provider",
    "modelId",
    "cancelled",
    "truncated",
]
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES)


@given(
    st.sampled_from([*KINDS, HOSTILE]),
    st.sampled_from([*ROLES, HOSTILE]),
    BODIES,
    st.integers(4, 40),
)
def test_no_entry_raises_or_leaves_a_control_sequence(
    kind: str, role: str, body: dict[str, Any], cells: int
) -> None:
    message = {**_message(role)["message"], **body}
    entry = {**_message(role), "type": kind, **body, "message": message}
    check_rows(EntryRows(COLOURS, cells, show_thinking=True).rows(entry, sender=HOSTILE), cells)


@given(
    st.lists(st.sampled_from(["a ", "\n\n", HOSTILE, "```\n", "|a|\n|-|\n"])), st.integers(4, 40)
)
def test_text_of_others_in_well_formed_entries_is_safe(pieces: list[str], cells: int) -> None:
    entries, text = EntryRows(COLOURS, cells, show_thinking=True), "".join(pieces)
    call = {**CALL, "name": text, "arguments": {"path": text, text: text}}
    thinking = {"type": "thinking", "thinking": text}
    for entry in (
        _message("user", text),
        _answer(thinking, _text(text), call, stop="error", errorMessage=text),
        _message("toolResult", [_text(text)], toolCallId="c", toolName=text, isError=True),
        _message("bashExecution", command=text, output=text, cancelled=False, truncated=False),
        _entry("custom_message", customType=text, content=text, display=True),
        _entry("branch_summary", summary=text, fromId="1"),
        _entry("session_info", name=text),
    ):
        check_rows(entries.rows(entry, sender=text), cells)
