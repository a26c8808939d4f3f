"""Requests to the host's user, method by method: fields that are there, and that may be."""

# Method -> fields that are always there, fields that may be.
REQUESTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "select": (
        ("title", "options"),
        ("timeout", "toolName", "toolCallId", "args", "risk", "sessionId"),
    ),
    "confirm": (("title", "message"), ("timeout",)),
    "input": (("title",), ("placeholder", "timeout")),
    "editor": (("title",), ("prefill",)),
    "notify": (("message",), ("notifyType",)),
    "setStatus": (("statusKey",), ("statusText",)),
    "setWidget": (("widgetKey",), ("widgetLines", "widgetPlacement")),
    "setTitle": (("title",), ()),
    "set_editor_text": (("text",), ()),
    "open_url": (("url",), ("launchUrl", "instructions")),
    "cancel": (("targetId",), ()),
}
# Those that wait for an answer.
DIALOGS = ("select", "confirm", "input", "editor")
