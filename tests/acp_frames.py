"""Check frames of the Agent Client Protocol with the models of its official Python library."""

from collections.abc import Iterable
from typing import Any

from acp import schema
from pydantic import BaseModel

from ludolf.base import loads

# Updates that version 0.12 of the library does not know: required and optional fields with their
# types, as in schema/v1/schema.json of @agentclientprotocol/sdk 2.4.0 (Apache-2.0).
_NEWER: dict[str, tuple[dict[str, type], dict[str, Any]]] = {
    "notice": ({"severity": str, "title": str}, {"description": str}),
    "compaction_update": (
        {"compactionId": str, "status": str},
        {"summary": list, "error": str | None},
    ),
}
# Fields of known updates that are newer than the library.
_NEWER_FIELDS = {"tool_call": ("name",), "tool_call_update": ("name",)}


def updates_in(frames: Iterable[bytes], session_id: str = "s1") -> list[dict[str, Any]]:
    """Return the updates of `session/update` lines, each of which must match the schema."""
    found = []
    for frame in frames:
        assert frame.endswith(b"\n") and frame.count(b"\n") == 1
        message = loads(frame)
        params = message.pop("params")
        assert message == {"jsonrpc": "2.0", "method": "session/update"}
        assert params["sessionId"] == session_id
        _check_update(params)
        found.append(params["update"])
    return found


_RESULTS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}
_REQUESTS: dict[str, type[BaseModel]] = {
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "terminal/create": schema.CreateTerminalRequest,
    "terminal/output": schema.TerminalOutputRequest,
    "terminal/wait_for_exit": schema.WaitForTerminalExitRequest,
    "terminal/kill": schema.KillTerminalRequest,
    "terminal/release": schema.ReleaseTerminalRequest,
}


def check_result(method: str, result: dict[str, Any]) -> None:
    """Check the result of a request of the client; unknown methods are not checked."""
    if method in _RESULTS:
        check_model(_RESULTS[method], result)


def check_request(method: str, params: dict[str, Any]) -> None:
    """Check the parameters of a request of the agent; unknown methods are not checked."""
    if method in _REQUESTS:
        check_model(_REQUESTS[method], params)


def check_model(model: type[BaseModel], value: dict[str, Any]) -> None:
    """Check that a value matches a model and has no field that the model does not know."""
    read = model.model_validate(value)
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == value


def _check_update(params: dict[str, Any]) -> None:
    update = params["update"]
    kind = update["sessionUpdate"]
    if kind in _NEWER:
        _check_newer(update, *_NEWER[kind])
        return
    newer = _NEWER_FIELDS.get(kind, ())
    known = {key: value for key, value in update.items() if key not in newer}
    check_model(schema.SessionNotification, {**params, "update": known})


def _check_newer(
    update: dict[str, Any], required: dict[str, type], optional: dict[str, Any]
) -> None:
    fields = {key: value for key, value in update.items() if key != "sessionUpdate"}
    assert required.keys() <= fields.keys() <= required.keys() | optional.keys()
    for key, value in fields.items():
        assert isinstance(value, {**required, **optional}[key]), key
    for block in fields.get("summary", ()):
        check_model(schema.TextContentBlock, block)
    assert fields.get("title", "-"), "a notice needs a title"
