"""Tools in the words of oh-my-pi: details of results, and questions before calls.

It adds path, size, lines and exit code to results.
Session files hold only the text of a result, in the wording of pi, so it is parsed here.
"""

import os
from typing import TYPE_CHECKING, Any

from ludolf.agent.events import ToolEnd
from ludolf.ai.messages import Text
from ludolf.base import expand_user
from ludolf.base.patterns import lazy_pattern
from ludolf.base.visible import escape_hidden

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest

JsonObject = dict[str, Any]
_EXITED = lazy_pattern(r"\n*Command exited with code (\d+)\Z")
_TIMED_OUT = lazy_pattern(r"Command timed out after [\d.]+ seconds\Z")
_NOTICE = lazy_pattern(
    r"\n\n\[(?:Showing lines \d+-\d+ of (?P<all>\d+)|(?P<more>\d+) more lines in file)\b[^\]]*\]\Z"
)
_REFUSED = lazy_pattern(r'Validation failed for tool "|Tool \S+ not found\Z')


def details_of(event: ToolEnd, args: JsonObject, cwd: str, home: str) -> JsonObject:
    """Return the details of a finished call of a tool that this family has too."""
    path = args.get("path")
    if event.tool_name == "bash":
        return _bash(event, args)
    if event.is_error or not isinstance(path, str):
        return {}
    if event.tool_name == "write" and "://" not in path:
        return {"resolvedPath": _place(path, cwd, home)}
    return _read(event, args, cwd, home) if event.tool_name == "read" else {}


def progress_of(event: ToolEnd, args: JsonObject, details: JsonObject) -> JsonObject | None:
    """Return the progress of a write, which is sent before its end."""
    if "resolvedPath" not in details or not isinstance(args.get("content"), str):
        return None
    size = len(args["content"].encode("utf-8", "replace"))
    text = f"Writing {size} bytes to {args['path']}"
    return {
        "type": "tool_execution_update",
        "toolCallId": event.tool_call_id,
        "toolName": event.tool_name,
        "args": args,
        "partialResult": {"content": [{"type": "text", "text": text}], "details": details},
    }


def displayed(content: list[JsonObject], details: JsonObject) -> JsonObject:
    """Add the displayed lines of a read, without notices, to its details."""
    start = details.pop("startLine", None)
    if start is None:
        return details
    shown = _shown(content[0]["text"])
    lines = shown.split("\n") if shown else []
    numbers = list(range(start, start + len(lines)))
    return {
        **details,
        "displayContent": {"text": shown, "startLine": start, "lineNumbers": numbers},
    }


def refused(content: list[JsonObject]) -> JsonObject:
    """Return the error of a call that did not reach its tool: unknown tool, invalid arguments."""
    text = str(content[0].get("text", "")) if content else ""
    return {"isError": True, "error": text} if _REFUSED.match(text) else {}


def with_wall_time(content: list[JsonObject], seconds: float) -> list[JsonObject]:
    """Add the wall time after the output of a command, before its exit code."""
    line = f"\n\nWall time: {seconds:.2f} seconds"
    if not content or content[-1].get("type") != "text":
        return [*content, {"type": "text", "text": line.lstrip("\n")}]
    text = content[-1]["text"]
    code = _EXITED.search(text)
    if code:
        text, line = text[: code.start()] + "\n", f"{line}\n\n{code[0].lstrip()}"
    return [*content[:-1], {**content[-1], "text": text + line}]


def artifact_id(path: str) -> str:
    """Return the name of the file with the whole output, without folder and suffix."""
    return path.replace("\\", "/").rpartition("/")[2].partition(".")[0]


# ---------------------------------------------------------------- private


def _bash(event: ToolEnd, args: JsonObject) -> JsonObject:
    limit = args.get("timeout")
    known: JsonObject = {"timeoutSeconds": limit if isinstance(limit, int | float) else 0}
    details = event.result.details
    if isinstance(details, dict) and isinstance(details.get("truncation"), dict):
        known["meta"] = {"truncation": _cut(details)}
    if not event.is_error:
        return known
    text = _text(event)
    code = _EXITED.search(text)
    if code:
        return {**known, "exitCode": int(code[1])}
    return {**known, "timedOut": True} if _TIMED_OUT.search(text) else {}


def _cut(details: JsonObject) -> JsonObject:
    """Return how much of the output was cut; the end is kept."""
    cut = details["truncation"]
    lines, shown = cut["totalLines"], cut["outputLines"]
    numbers = ("totalLines", "totalBytes", "outputLines", "outputBytes", "maxBytes")
    range_ = {
        "direction": "tail",
        "truncatedBy": "tail",
        **{name: cut[name] for name in numbers if name in cut},
        "headRange": {"start": 1, "end": 0},
        "tailRange": {"start": lines - shown + 1, "end": lines},
        "elidedLines": lines - shown,
        "elidedBytes": cut["totalBytes"] - cut["outputBytes"],
    }
    path = details.get("fullOutputPath")
    return {**range_, "artifactId": artifact_id(path)} if isinstance(path, str) else range_


def _read(event: ToolEnd, args: JsonObject, cwd: str, home: str) -> JsonObject:
    shown = _lines(event, args)
    if "://" in args["path"]:
        source = {"type": "internal", "value": args["path"]}
        return {**shown, "meta": {"source": source}}
    place = _place(args["path"], cwd, home)
    source = {"type": "path", "value": place}
    return {**shown, "fileSize": _size(place), "meta": {"source": source}}


def _lines(event: ToolEnd, args: JsonObject) -> JsonObject:
    """Return which lines are shown; nothing for an image."""
    parts = event.result.content
    if not parts or not isinstance(parts[0], Text) or not isinstance(parts[-1], Text):
        return {}
    offset = args.get("offset")
    start = max(1, int(offset)) if isinstance(offset, int | float) else 1
    return {"totalLines": _total(parts[0].text, start), "startLine": start}


def _total(text: str, start: int) -> int:
    notice = _NOTICE.search(text)
    if notice and notice["all"]:
        return int(notice["all"])
    shown = _shown(text)
    last = start - 1 + (shown.count("\n") + 1 if shown else 0)
    return last + (int(notice["more"]) if notice else 0)


def _shown(text: str) -> str:
    return _NOTICE.sub("", text).removesuffix("\n")


def _place(path: str, cwd: str, home: str) -> str:
    return os.path.normpath(os.path.join(cwd, expand_user(path, home)))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _text(event: ToolEnd) -> str:
    last = event.result.content[-1] if event.result.content else None
    return last.text if isinstance(last, Text) else ""


# ---------------------------------------------------------------- approval

_MOST_SHOWN = 2000
_CHOICES = ("Approve", "Deny")


def approval(request: "UiRequest") -> "UiRequest":
    """Return the question before a tool call with the title and the options of this family."""
    args = request.args if isinstance(request.args, dict) else {}
    lines = [f"Allow tool: {request.tool_name}", *_about_call(request.tool_name, args)]
    return request.replace(title="\n".join(lines), options=_CHOICES)


def _about_call(tool: str | None, args: JsonObject) -> list[str]:
    """Return the arguments that hosts read from the title; those of other tools are not in it."""
    match tool:
        case "bash":
            return [f"Command: {_argument(args, 'command')}"]
        case "write":
            return [f"Path: {_argument(args, 'path')}", f"Content:\n{_argument(args, 'content')}"]
        case "edit":
            return [f"File: {_argument(args, 'path')}"]
    return []


def _argument(args: JsonObject, name: str) -> str:
    """Return an argument, shortened, with invisible characters escaped except line breaks."""
    value = args.get(name)
    if not isinstance(value, str):
        return "(missing)"
    more = len(value) - _MOST_SHOWN
    shown = "\n".join(map(escape_hidden, value[:_MOST_SHOWN].split("\n")))
    return shown if more <= 0 else f"{shown}[…{more}ch elided…]"
