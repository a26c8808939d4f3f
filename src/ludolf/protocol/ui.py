"""Dialogs and notices of extensions on the wire; the answers are commands."""

from typing import Any, Literal

from msgspec import UNSET

from ludolf.base import Value
from ludolf.protocol.commands import UiAnswer

UiMethod = Literal[
    "select",
    "confirm",
    "input",
    "editor",
    "notify",
    "setStatus",
    "setWidget",
    "setTitle",
    "set_editor_text",
    "open_url",
    "cancel",
]
# Those that wait for an answer.
DIALOGS: tuple[UiMethod, ...] = ("select", "confirm", "input", "editor")
# What a tool call that waits for approval may do.
Risk = Literal["read", "write", "execute", "unknown"]


class UiRequest(Value, kw_only=True, tag_field="type", tag="extension_ui_request"):
    """One request. Which fields it has depends on the method; all others are absent.

    select           title, options, timeout?; and if it is about a tool call that waits for
                     approval: toolName, toolCallId, args, risk, sessionId
    confirm          title, message, timeout?
    input            title, placeholder?, timeout?
    editor           title, prefill?
    notify           message, notifyType?
    setStatus        statusKey, statusText? (absent clears)
    setWidget        widgetKey, widgetLines? (absent clears), widgetPlacement?
    setTitle         title
    set_editor_text  text
    open_url         url, launchUrl? (the same with a code filled in), instructions?
    cancel           targetId (the dialog that needs no answer any more)
    """

    id: str
    method: UiMethod
    title: str | None = None
    message: str | None = None
    options: tuple[str, ...] | None = None
    placeholder: str | None = None
    prefill: str | None = None
    timeout: float | None = None
    notify_type: Literal["info", "warning", "error"] | None = None
    status_key: str | None = None
    status_text: str | None = None
    widget_key: str | None = None
    widget_lines: tuple[str, ...] | None = None
    widget_placement: Literal["aboveEditor", "belowEditor"] | None = None
    text: str | None = None
    url: str | None = None
    launch_url: str | None = None
    instructions: str | None = None
    target_id: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    args: Any = UNSET
    risk: Risk | None = None
    session_id: str | None = None
    by: str | None = None


def fits(request: UiRequest, answer: UiAnswer) -> bool:
    """Return whether an answer is one that the dialog offers; every dialog can be dismissed."""
    if answer.cancelled:
        return True
    match request.method:
        case "select":
            return isinstance(answer.value, str) and answer.value in (request.options or ())
        case "confirm":
            return isinstance(answer.confirmed, bool)
        case "input" | "editor":
            return isinstance(answer.value, str)
    return False
