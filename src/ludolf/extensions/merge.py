"""Merge the answers of several handlers: one function per event that takes answers.

Each function applies one answer to the state of the dispatch. A BadAnswer counts as an error of
the handler.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import structs

from ludolf.ai.messages import AnyMessage, Image, OpaqueMessage, Usage
from ludolf.extensions import answers, payloads
from ludolf.functions.content import (
    BadAnswer,
    read,
    read_custom,
    read_message,
    read_messages,
    read_parts,
    to_wire,
)

SAME_ROLE = "message_end handlers must return a message with the same role"


class Dispatch(msgspec.Struct):
    """State of a dispatch: payload for the next handler, answer so far, and whether it is final."""

    payload: Any
    answer: Any = None
    final: bool = False

    def change(self, **fields: Any) -> None:
        self.payload = structs.replace(self.payload, **fields)


HandlerAnswer = Mapping[str, Any]
MergeRule = Callable[[Dispatch, HandlerAnswer, Path], None]
SessionDecision = (
    answers.SwitchAnswer | answers.ForkDecision | answers.CompactDecision | answers.TreeDecision
)


def trust(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    trusted = answer.get("trusted")
    if trusted not in ("yes", "no", "undecided", True, False):
        raise BadAnswer('trusted must be "yes", "no" or "undecided"')
    if trusted != "undecided":
        remember = bool(answer.get("remember"))
        state.answer = answers.TrustDecision(trusted=trusted in ("yes", True), remember=remember)
        state.final = True


def resources(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    for name in ("skill_paths", "prompt_paths", "theme_paths"):
        added = read(tuple[str, ...], answer.get(name) or (), name)
        # Relative paths are resolved against the folder of the extension, `~` later.
        places = tuple(path if path.startswith("~") else str(owner.parent / path) for path in added)
        state.change(**{name: getattr(state.payload, name) + places})


def decision(kind: type[SessionDecision]) -> MergeRule:
    """Return the rule that uses the last answer; a veto is final."""

    def rule(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
        state.answer = read(kind, answer, state.payload.type)
        state.final = state.answer.cancel

    return rule


def compact(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    body = _from_hook(answer.get("compaction"), type="compaction")
    decision(answers.CompactDecision)(state, {**answer, "compaction": body}, owner)


def _from_hook(body: Any, **fields: str) -> Any:
    """Mark the fields of an entry as those from a handler; other values are refused later."""
    if isinstance(body, msgspec.Struct):
        body = to_wire(body)
    return {**body, **fields, "from_hook": True} if isinstance(body, Mapping) else body


def text_input(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    action: Literal["continue", "transform", "handled"] = answer.get("action", "continue")
    match action:
        case "continue":
            return
        case "handled":
            state.answer, state.final = "handled", True
        case "transform":
            text = read(str, answer.get("text", state.payload.text), "text")
            images = answer.get("images")
            current = state.payload.images
            state.change(
                text=text,
                images=current if images is None else read(tuple[Image, ...], images, "images"),
            )
        case _:
            raise BadAnswer(f'input: unknown action "{action}"')


def before_agent_start(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    if answer.get("message") is not None:
        message = read_custom(answer["message"], "message")
        state.change(messages=(*state.payload.messages, message))
    if answer.get("system_prompt") is not None:
        prompt = read(str, answer["system_prompt"], "system_prompt")
        state.change(system_prompt=prompt, forced=True)
    if answer.get("system_prompt_options") is not None:
        old = state.payload.system_prompt_options
        changes = dict(answer["system_prompt_options"])
        merged = {**structs.asdict(old), **changes}
        options = read(payloads.PromptOptions, merged, "system_prompt_options")
        state.change(system_prompt_options=options)


def message_end(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    replacement = answer.get("message")
    if replacement is None:
        return
    message = read_message(replacement, "message")
    if role(message) != role(state.payload.message):
        raise BadAnswer(SAME_ROLE)
    state.change(message=message)


def role(message: AnyMessage) -> str:
    if isinstance(message, OpaqueMessage):
        return message.role
    return str(message.__struct_config__.tag)


def tool_call(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    if answer.get("input") is not None:
        state.change(input=read(dict[str, Any], answer["input"], "input", rename=False))
    state.answer = answers.ToolCallDecision(input=state.payload.input)
    if answer.get("block") is None:
        if answer.get("reason") is not None or answer.get("terminate") is not None:
            raise BadAnswer('tool_call: "reason" and "terminate" need "block"')
    elif read(bool, answer["block"], "block"):
        reason, terminate = answer.get("reason"), answer.get("terminate")
        state.answer = state.answer.replace(
            block=True,
            reason=None if reason is None else read(str, reason, "reason"),
            terminate=terminate is not None and read(bool, terminate, "terminate"),
        )
        state.final = True


def tool_result(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    if answer.get("content") is not None:
        state.change(content=read_parts(answer["content"], "content"))
    if "details" in answer:
        state.change(details=answer["details"])
    if answer.get("is_error") is not None:
        state.change(is_error=read(bool, answer["is_error"], "is_error"))
    if answer.get("usage") is not None:
        state.change(usage=read(Usage, answer["usage"], "usage"))


def user_bash(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    if answer.get("result") is not None:
        state.answer = read(answers.BashAnswer, answer["result"], "result")
    elif answer.get("operations") is not None:
        if not callable(getattr(answer["operations"], "exec", None)):
            raise BadAnswer("operations must have an exec method")
        state.answer = answers.BashElsewhere(answer["operations"])
    else:
        raise BadAnswer('user_bash: return "result", "operations" or None')
    state.final = True


def context(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    if answer.get("messages") is not None:
        state.change(messages=read_messages(answer["messages"], "messages"))


def context_with_system(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    context(state, answer, owner)
    if answer.get("system_prompt") is not None:
        state.change(system_prompt=read(str, answer["system_prompt"], "system_prompt"))


def headers(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    """Set the headers in the answer; None removes one."""
    changes = read(dict[str, str | None], answer.get("headers") or {}, "headers", rename=False)
    merged = {**state.payload.headers, **changes}
    state.change(headers={name: text for name, text in merged.items() if text is not None})


def boundary(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    if answer.get("entries"):
        drafts: tuple[answers.EntryDraft, ...] = tuple(
            read(answers.EntryDraft, _from_hook(draft), "entries")  # type: ignore[arg-type]  # a union is not a type
            for draft in answer["entries"]
        )
        state.change(entries=(*state.payload.entries, *drafts))
    if answer.get("continue") is not None:
        state.change(continue_=bool(answer["continue"]))


def cache_warming(state: Dispatch, answer: HandlerAnswer, owner: Path) -> None:
    if answer.get("action") not in ("warm", "stop"):
        raise BadAnswer('action must be "warm" or "stop"')
    state.change(action=answer["action"])
