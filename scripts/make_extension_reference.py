"""Makes the reference of events in docs/extensions.md from the code, between its two marks.

Usage: python scripts/make_extension_reference.py
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ludolf import ext
from ludolf.ai.messages import AnyMessage
from ludolf.extensions import payloads
from ludolf.extensions.hooks import HOOKS, Hook
from ludolf.extensions.session_view import EntryView

PAGE = Path(__file__).parents[1] / "docs" / "extensions.md"
BEGIN = "<!-- events: made by scripts/make_extension_reference.py -->\n"
END = "<!-- end of events -->\n"

# When each event comes, in the order of the page.
WHEN: dict[str, dict[str, str]] = {
    "Before a session": {
        "project_trust": "a project has code or settings, and the user has not decided about them",
        "resources_discover": "skills and prompt templates are about to be looked for",
    },
    "The session": {
        "session_start": "a session has begun; open here what lives as long as it does",
        "session_info_changed": "the session was named",
        "session_before_switch": "another session is about to take its place",
        "session_before_fork": "a branch is about to become a session of its own",
        "session_before_compact": "a conversation that grew long is about to be summarised",
        "session_compact": "a conversation has been summarised",
        "session_compact_failed": "a conversation could not be summarised, or that was stopped",
        "session_before_tree": "the conversation is about to go on from another entry",
        "session_tree": "the conversation continues from another entry",
        "session_shutdown": "the session ends; close here what `session_start` opened",
    },
    "A prompt": {
        "input": "a prompt arrives; commands of extensions are not reported here",
        "before_agent_start": "a run is about to start with this prompt",
    },
    "A run": {
        "agent_start": "the agent begins to work",
        "turn_start": "the model is about to be asked",
        "turn_end": "the model has answered, and its tools are done",
        "agent_end": "the agent has no more to do",
        "agent_before_settle": "last chance to make it go on",
        "agent_settled": "all is at rest",
    },
    "Messages": {
        "message_start": "a message begins",
        "message_update": "a piece of an answer has arrived",
        "message_end": "a message is whole and about to be stored",
    },
    "Tools": {
        "tool_call": "a tool is about to run; its arguments have been checked",
        "tool_execution_start": "a call is being dealt with",
        "tool_execution_update": "a tool shows what it has so far",
        "tool_result": "a tool has ended; the model has not seen the result yet",
        "tool_execution_end": "the result is final",
        "user_bash": "the user, not the model, runs a command",
    },
    "The model": {
        "context": "messages are about to be sent; the session itself does not change",
        "context_with_system": "the same, after `context`, together with the system prompt",
        "before_provider_request": "a request has been put into the provider's words",
        "before_provider_headers": "the headers of a request are ready; None removes one",
        "after_provider_response": "the provider has begun to answer",
        "model_select": "another model was chosen",
        "thinking_level_select": "another level was chosen",
        "cache_warming_decision": "kept for later; nothing asks it yet",
    },
    "Dialogs": {
        "ui_prompt_start": "a dialog of an extension has opened, and none was open before",
        "ui_prompt_end": "the last open dialog has closed",
    },
}
# The parts of payloads and answers that have fields of their own.
PARTS = (
    *(payloads.CompactionPlan, payloads.TreePlan, payloads.PromptOptions, payloads.Boundary),
    *(payloads.AnswerPiece, ext.Compaction, ext.TreeSummary, ext.BashResult),
    ext.CustomMessageAnswer,
)
_SHORT: dict[Any, str] = {Any: "any", NoneType: "None", EntryView: "Entry"}
_MESSAGES = set(get_args(AnyMessage))


def render() -> str:
    """The whole reference."""
    return "".join(_pieces())


def updated(page: str) -> str:
    """Return the page with a new reference."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{render()}\n{END}{tail}"


def _pieces() -> Iterator[str]:
    for title, events in WHEN.items():
        yield f"### {title}\n\n"
        for name, when in events.items():
            yield from _event(HOOKS[name], when)
    yield "### Parts of events and answers\n\n"
    for part in PARTS:
        yield f"**{_shown(part)}** — {_listed(_fields(part))}\n\n"


def _event(hook: Hook, when: str) -> Iterator[str]:
    yield f"#### `{hook.name}`\n\n{when[0].upper()}{when[1:]}. *{hook.kind}*\n\n"
    lines = []
    if fields := _fields(hook.payload):
        lines.append(f"Fields: {_listed(fields)}")
    if hook.name == "before_provider_request":
        lines.append("May return: the new payload, whole")
    elif hook.keys:
        lines.append(f"May return: {_listed(_fields(hook.answer))}")
    if hook.blocks:
        lines.append("A handler that fails, or whose answer is invalid, denies the action")
    yield "".join(f"- {line}\n" for line in lines) + "\n" * bool(lines)


def _fields(kind: Any) -> dict[str, str]:
    """The fields of a value or a dict, each with its type."""
    hints = get_type_hints(kind, vars(payloads))
    names = getattr(kind, "__struct_fields__", hints)
    return {name: _shown(hints[name]) for name in names}


def _shown(hint: Any) -> str:
    """A type as people write it."""
    if hint in _SHORT:
        return _SHORT[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(f'"{value}"' for value in args)
    if origin in (Union, UnionType):
        return _union(args)
    if origin is not None and issubclass(origin, Mapping):
        return "dict"
    if origin is not None and args:
        return f"list of {_shown(args[0])}"
    return str(getattr(hint, "__name__", hint)).removesuffix("Answer")


def _union(args: tuple[Any, ...]) -> str:
    left = [arg for arg in args if arg is not NoneType]
    if len(_MESSAGES & set(left)) > 2:
        left = [arg for arg in left if arg not in _MESSAGES]
        return " or ".join(["Message", *map(_shown, left)])
    return " or ".join(map(_shown, (*left, *(arg for arg in args if arg is NoneType))))


def _listed(fields: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in fields.items())


def headings(page: str) -> list[str]:
    """The events that a page has a heading for."""
    return re.findall(r"^#### `(\w+)`$", page, re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
