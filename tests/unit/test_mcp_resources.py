"""Resources of MCP servers: lists of one or all servers, and contents of any kind."""

import base64
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ludolf.agent.tool import Tool, ToolContext, ToolFailure, ToolOutput
from ludolf.ai.messages import text_of
from ludolf.engine.features.mcp.resources import PAGE, resource_tools
from ludolf.mcp.wire import Json, McpError, Refusal


class Found(msgspec.Struct, frozen=True):
    items: tuple[Any, ...] = ()
    cut: str = ""


class Server:
    def __init__(self, listed: Found) -> None:
        self._listed = listed

    async def list_resources(self) -> Found:
        return self._listed

    async def list_resource_templates(self) -> Found:
        return Found(({"uriTemplate": "lab://{name}", "name": "any"},))

    async def read_resource(self, uri: str) -> Json:
        if uri == "lab://text":
            contents: list[Any] = [{"uri": uri, "text": "inner\U000e0041"}, None]
        elif uri == "lab://blob":
            blob = base64.b64encode(b"%PDF").decode()
            contents = [{"uri": uri, "mimeType": "application/pdf", "blob": blob}]
        else:
            raise Refusal(-32002, "Resource not found")
        return {"contents": contents}


class Servers:
    def __init__(self, **servers: Server | None) -> None:
        self._servers = servers

    def names(self) -> Sequence[str]:
        return tuple(self._servers)

    async def connection(self, server: str) -> Server:
        found = self._servers[server]
        if found is None:
            raise McpError("The server did not start")
        return found


DOC = {"uri": "lab://doc", "name": "doc", "mimeType": "text/plain", "description": "A\u202e doc\n"}
MANY = tuple({"uri": f"lab://{number}"} for number in range(PAGE + 1))


def _tools(**servers: Server | None) -> tuple[Tool, ...]:
    return resource_tools(Servers(**servers))


async def _run(tool: Tool, **args: Any) -> ToolOutput:
    async def report(partial: ToolOutput) -> None: ...

    return await tool.execute(args, ToolContext(call_id="1", cwd=Path(), report=report))


async def test_the_resources_of_all_servers_are_listed_with_what_is_missing() -> None:
    lab = Server(Found((DOC, None, {"name": "no address"}), "only the first 3 were read"))
    tool, templates, _ = _tools(lab=lab, broken=None)
    output = await _run(tool)
    assert text_of(output.content) == (
        "lab: lab://doc - doc (text/plain) A doc\n\n"
        "[lab: only the first 3 were read. broken: The server did not start]"
    )
    assert text_of((await _run(templates, server="lab")).content) == "lab: lab://{name} - any"


async def test_a_long_list_is_read_page_by_page() -> None:
    tool, *_ = _tools(lab=Server(Found(MANY)))
    first = await _run(tool, server="lab")
    assert first.details["nextCursor"] == str(PAGE)
    assert f'{PAGE} of {PAGE + 1} shown. Use cursor="{PAGE}" for more' in text_of(first.content)
    last = await _run(tool, cursor=str(PAGE))
    assert text_of(last.content) == f"lab: lab://{PAGE}"
    assert last.details == {"count": PAGE + 1}


async def test_an_empty_list_says_so() -> None:
    for servers in ({}, {"lab": Server(Found())}):
        tool, *_ = _tools(**servers)
        assert text_of((await _run(tool)).content) == "No MCP server has resources."


@pytest.mark.parametrize(
    ("number", "args", "error"),
    [
        (0, {"server": "other"}, "No MCP server other with resources. Servers with resources: lab"),
        (0, {"server": "broken"}, "broken: The server did not start"),
        (0, {"cursor": "x"}, "The cursor is not one of a previous result"),
        (2, {"server": "other", "uri": "x"}, "No MCP server other with resources"),
        (2, {"server": "lab", "uri": "x"}, "Cannot read x from lab: Resource not found"),
        (2, {"server": "broken", "uri": "x"}, "Cannot read x from broken: The server did not"),
    ],
)
async def test_a_failure_names_the_server_and_the_reason(
    number: int, args: Any, error: str
) -> None:
    tools = _tools(lab=Server(Found()), broken=None)
    with pytest.raises(ToolFailure, match=re.escape(error)):
        await _run(tools[number], **args)


async def test_text_is_shown_under_its_address_and_other_content_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    *_, tool = _tools(lab_one=Server(Found()))
    text = await _run(tool, server="lab-one", uri="lab://text")
    assert text_of(text.content).startswith("lab://text:\ninner\n[1 item is left out")
    assert text.details == {"server": "lab_one", "uri": "lab://text"}
    blob = text_of((await _run(tool, server="lab_one", uri="lab://blob")).content)
    (saved,) = re.findall(r"saved as (\S+\.pdf)", blob)
    assert Path(saved).read_bytes() == b"%PDF"
    assert Path(saved).stat().st_mode & 0o777 == 0o600


def test_the_tools_change_nothing() -> None:
    tools = _tools()
    assert [tool.name for tool in tools] == [
        "list_mcp_resources",
        "list_mcp_resource_templates",
        "read_mcp_resource",
    ]
    assert all(tool.read_only for tool in tools)
