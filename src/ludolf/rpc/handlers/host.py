"""Commands of a host that provides dialogs, tools and documents."""

from collections.abc import Sequence
from typing import Any

from ludolf.ai.messages import Part, Text
from ludolf.base import CommandError
from ludolf.base.patterns import lazy_pattern
from ludolf.engine.host.host_tools import Definition, output
from ludolf.engine.host.host_uris import HostDocument, Scheme
from ludolf.protocol.commands import HostToolResult, HostToolUpdate, HostUriResult
from ludolf.protocol.images import read_image
from ludolf.rpc.connection import Call, ReplyData, Result, Silence, handles, unknown_command

_SCHEME = lazy_pattern(r"[a-z][a-z0-9+.-]*")


@handles
async def extension_ui_response(call: Call) -> Result:
    if isinstance(call.command.id, str):
        call.engine.answer_dialog(call.command)
    return Silence()


@handles
async def set_host_tools(call: Call) -> Result:
    tools = [_definition(index, item) for index, item in enumerate(call.command.tools)]
    return ReplyData({"toolNames": call.host.tools.replace(tools)})


def _definition(index: int, item: Any) -> Definition:
    fields = item if isinstance(item, dict) else {}
    name = _text(fields, "name").strip()
    if not name:
        raise CommandError(f"Host tool at index {index} must provide a non-empty name")
    description = _text(fields, "description").strip()
    if not description:
        raise CommandError(f'Host tool "{name}" must provide a non-empty description')
    parameters = fields.get("parameters")
    if not isinstance(parameters, dict):
        raise CommandError(f'Host tool "{name}" must provide a JSON Schema object')
    limit = fields.get("timeoutMs")
    return Definition(
        name=name,
        label=_text(fields, "label").strip() or name,
        description=description,
        parameters=parameters,
        hidden=fields.get("hidden") is True,
        read_only=fields.get("readOnly") is True,
        timeout_ms=limit if isinstance(limit, int | float) and limit > 0 else None,
    )


@handles
async def host_tool_update(call: Call) -> Result:
    command: HostToolUpdate = call.command
    content = _content(call, command.id, command.partial_result)
    details = command.partial_result.get("details")
    call.host.tools.update(_checked_id(call, command.id), output(content, details))
    return Silence()


@handles
async def host_tool_result(call: Call) -> Result:
    command: HostToolResult = call.command
    result = command.result
    content = _content(call, command.id, result)
    call.host.tools.result(
        _checked_id(call, command.id),
        output(content, result.get("details")),
        failed=command.is_error is True,
        is_error=result.get("isError") is True,
    )
    return Silence()


def _checked_id(call: Call, id: Any) -> str:
    if not isinstance(id, str):
        raise unknown_command(call.head.type)
    return id


def _content(call: Call, id: Any, result: Any) -> Sequence[Part]:
    """Return the content blocks of a result.

    Raises:
        CommandError: the frame has no id or no list of blocks.
    """
    blocks = result.get("content") if isinstance(result, dict) else None
    if not isinstance(blocks, list) or not isinstance(id, str):
        raise unknown_command(call.head.type)
    return [_block(call, block) for block in blocks]


def _block(call: Call, block: Any) -> Part:
    if isinstance(block, dict) and block.get("type") == "image":
        return read_image(call.head.type, block, "content")
    text = block.get("text") if isinstance(block, dict) else block
    return Text(text=text if isinstance(text, str) else "")


@handles
async def set_host_uri_schemes(call: Call) -> Result:
    schemes = [_scheme(item) for item in call.command.schemes]
    names = call.host.documents.replace(schemes)
    call.engine.resources.invalidate_prompt()
    return ReplyData({"schemes": names})


def _scheme(item: Any) -> Scheme:
    fields = item if isinstance(item, dict) else {}
    value = fields.get("scheme")
    name = value.strip().lower() if isinstance(value, str) else ""
    if not name:
        raise CommandError("Host URI scheme must be a non-empty string")
    if not _SCHEME.fullmatch(name):
        raise CommandError(f"Host URI scheme contains invalid characters: {value}")
    limit = fields.get("timeoutMs")
    return Scheme(
        name=name,
        description=" ".join(_text(fields, "description").split()),
        writable=fields.get("writable") is True,
        immutable=fields.get("immutable") is True,
        timeout_ms=limit if isinstance(limit, int | float) and limit > 0 else None,
    )


@handles
async def host_uri_result(call: Call) -> Result:
    command: HostUriResult = call.command
    if not isinstance(command.id, str):
        raise unknown_command(call.head.type)
    fields = {"error": command.error, "content": command.content, "type": command.content_type}
    if command.is_error is True:
        error = _text(fields, "error") or _text(fields, "content")
        call.host.documents.failed(command.id, error)
        return Silence()
    notes = command.notes if isinstance(command.notes, list) else ()
    call.host.documents.result(
        command.id,
        HostDocument(
            content=_text(fields, "content"),
            content_type=_text(fields, "type") or "text/plain",
            notes=tuple(note for note in notes if isinstance(note, str) and note.strip()),
            immutable=command.immutable if isinstance(command.immutable, bool) else None,
        ),
    )
    return Silence()


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
