"""A server on the official SDK: `python sdk_server.py stdio`, or `http`, which prints its port."""

import socket
import sys
from typing import Annotated

# In the environment of the peers only, not in the one that checks types.
import uvicorn  # type: ignore[import-not-found]
from mcp.server.mcpserver import Context, MCPServer  # type: ignore[import-not-found]
from mcp.server.mcpserver.resolve import (  # type: ignore[import-not-found]
    Elicit,
    ListRoots,
    Resolve,
    Sample,
)
from mcp.types import (  # type: ignore[import-not-found]
    CreateMessageResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

server = MCPServer("sdk", instructions="Use add.")


class Sum(BaseModel):
    total: int


class Colour(BaseModel):
    colour: str


def ask_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


def ask_model() -> Sample:
    content = TextContent(type="text", text="Say a word.")
    return Sample([SamplingMessage(role="user", content=content)], max_tokens=10)


def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


async def steps(count: int, ctx: Context) -> str:
    """Report progress."""
    for step in range(1, count + 1):
        await ctx.report_progress(step, count, f"step {step}")
    return "done"


def fail() -> str:
    """Fail."""
    raise ValueError("it is broken")


def paint(answer: Annotated[Colour, Resolve(ask_colour)]) -> str:
    """Ask the user."""
    return f"painted {answer.colour}"


def write(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask the model of the client."""
    return f"wrote {answer.content.text}"


def folders(answer: Annotated[ListRootsResult, Resolve(ListRoots)]) -> str:
    """Ask for the folders of the client."""
    return f"roots {[str(root.uri) for root in answer.roots]}"


async def grow(ctx: Context) -> str:
    """Add a tool."""
    server.add_tool(lambda: "grown", name="grown", description="A new tool.")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


def document() -> str:
    return "contents"


def page(name: str) -> str:
    return f"page of {name}"


def greet(who: str) -> str:
    """Greet."""
    return f"Greet {who}."


for tool in (add, steps, fail, paint, write, folders, grow):
    server.add_tool(tool)
server.resource("test://doc")(document)
server.resource("test://{name}/page")(page)
server.prompt()(greet)


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run()
        return
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
