"""Commands of host tools: the set that a host lends, its progress and its results."""

from collections.abc import Sequence
from typing import Any

from ludolf.ai.messages import Part, Text
from ludolf.base import CommandError
from ludolf.engine.host.host_tools import Definition, output
from ludolf.protocol.commands import HostToolResult, HostToolUpdate
from ludolf.protocol.images import read_image
from ludolf.rpc.call import Call, Data, Handler, Result, Silence


async def _set_host_tools(call: Call) -> Result:
    tools = [_definition(index, item) for index, item in enumerate(call.command.tools)]
    return Data({"toolNames": call.engine.host_tools.replace(tools)})


def _definition(index: int, item: Any) -> Definition:
    fields = item if isinstance(item, dict) else {}
    name = _text(fields, "name")
    if not name:
        raise CommandError(f"Host tool at index {index} must provide a non-empty name")
    description = _text(fields, "description")
    if not description:
        raise CommandError(f'Host tool "{name}" must provide a non-empty description')
    parameters = fields.get("parameters")
    if not isinstance(parameters, dict):
        raise CommandError(f'Host tool "{name}" must provide a JSON Schema object')
    limit = fields.get("timeoutMs")
    return Definition(
        name=name,
        label=_text(fields, "label") or name,
        description=description,
        parameters=parameters,
        hidden=fields.get("hidden") is True,
        read_only=fields.get("readOnly") is True,
        timeout_ms=limit if isinstance(limit, int | float) and limit > 0 else None,
    )


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value.strip() if isinstance(value, str) else ""


async def _host_tool_update(call: Call) -> Result:
    command: HostToolUpdate = call.command
    content = _content(call, command.id, command.partial_result)
    details = command.partial_result.get("details")
    call.engine.host_tools.update(_checked_id(call, command.id), output(content, details))
    return Silence()


async def _host_tool_result(call: Call) -> Result:
    command: HostToolResult = call.command
    result = command.result
    content = _content(call, command.id, result)
    call.engine.host_tools.result(
        _checked_id(call, command.id),
        output(content, result.get("details")),
        failed=command.is_error is True,
        is_error=result.get("isError") is True,
    )
    return Silence()


def _checked_id(call: Call, id: Any) -> str:
    if not isinstance(id, str):
        raise _not_a_host_frame(call)
    return id


def _content(call: Call, id: Any, result: Any) -> Sequence[Part]:
    """The blocks of a result; a frame without any list of them is none of this kind."""
    blocks = result.get("content") if isinstance(result, dict) else None
    if not isinstance(blocks, list) or not isinstance(id, str):
        raise _not_a_host_frame(call)
    return [_block(call, block) for block in blocks]


def _block(call: Call, block: Any) -> Part:
    if isinstance(block, dict) and block.get("type") == "image":
        return read_image(call.head.type, block, "content")
    text = block.get("text") if isinstance(block, dict) else block
    return Text(text=text if isinstance(text, str) else "")


def _not_a_host_frame(call: Call) -> CommandError:
    return CommandError(f"Unknown command: {call.head.type}")


HOST_TOOLS: dict[str, Handler] = {
    "set_host_tools": Handler("now", _set_host_tools),
    "host_tool_update": Handler("now", _host_tool_update),
    "host_tool_result": Handler("now", _host_tool_result),
}
