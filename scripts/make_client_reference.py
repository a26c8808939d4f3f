"""Makes the reference of the client in docs/client.md from the code, between its two marks.

Usage: python scripts/make_client_reference.py
"""

import inspect
import re
from pathlib import Path
from typing import Any

from ludolf.client import ClientOptions, RemoteClient, RemoteOptions, RemoteSession
from ludolf.client.base import SendingMethod
from ludolf.client.commands import (
    AgentCommands,
    ExtensionCommands,
    McpCommands,
    ModelCommands,
    ProgramCommands,
    PromptCommands,
    SessionCommands,
)
from ludolf.client.connection import ClientConnection
from ludolf.client.exchange import RecordExchange
from ludolf.client.remote_options import AttachParams, OpenParams
from ludolf.client.typed import TypedExchange

PAGE = Path(__file__).parents[1] / "docs" / "client.md"
BEGIN = "<!-- reference: made by scripts/make_client_reference.py -->\n"
END = "<!-- end of reference -->\n"
GROUPS: dict[str, type[Any]] = {
    "Life": ClientConnection,
    "Prompts and events": TypedExchange,
    "Records": RecordExchange,
    "Prompts, queues, shell": PromptCommands,
    "State, models, keys": ModelCommands,
    "Conversation and sessions": SessionCommands,
    "The program and its host": ProgramCommands,
    "Agents in the background": AgentCommands,
    "Extensions": ExtensionCommands,
    "MCP servers": McpCommands,
    "`RemoteClient`: sessions of a server": RemoteClient,
    "`RemoteSession`: also": RemoteSession,
}
OPTIONS: dict[str, Any] = {
    "Options": ClientOptions,
    "Options of `RemoteClient`": RemoteOptions,
    "Parameters of `RemoteClient.open`": OpenParams,
    "Parameters of `RemoteClient.attach`": AttachParams,
}
# Of these classes only what a host uses.
SHOWN: dict[type[Any], tuple[str, ...]] = {
    ClientConnection: ("open", "close", "kill"),
    RecordExchange: ("send", "request", "reply_to", "ask", "events", "collect", "wait_for"),
    RemoteSession: ("detach",),
}
_OPTION = re.compile(r"^(\w+) {2,}(.*)$")


def updated(page: str) -> str:
    """Return the page with a new reference."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + "\n".join(_sections()) + "\n" + END + after


def _sections() -> list[str]:
    lines: list[str] = []
    for title, kind in OPTIONS.items():
        lines += [*([""] if lines else []), f"### {title}", "", "| option | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {text} |" for name, text in options(kind).items()]
    for title, group in GROUPS.items():
        lines += ["", f"### {title}", "", "| method | |", "|---|---|"]
        lines += [
            f"| `{signature(name, method)}` | {_summary(method)} |"
            for name, method in methods(group)
        ]
    return lines


def options(kind: Any = ClientOptions) -> dict[str, str]:
    """Return the options of a client, from their docstring."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(kind.__doc__ or "").splitlines()[2:]:
        begun = _OPTION.match(line)
        if begun:
            name = begun[1]
            found[name] = begun[2]
        else:
            found[name] += " " + line.strip()
    return found


def methods(group: type[Any]) -> list[tuple[str, Any]]:
    """The public methods that a class itself defines, in their order."""
    return [
        (name, each)
        for name, each in vars(group).items()
        if (inspect.isfunction(each) or isinstance(each, SendingMethod))
        and not name.startswith("_")
        and (group not in SHOWN or name in SHOWN[group])
    ]


def signature(name: str, method: Any) -> str:
    """The method as it is called, without types."""
    words = []
    star = False
    for each in list(inspect.signature(method).parameters.values())[1:]:
        if each.kind is each.KEYWORD_ONLY and not star:
            words.append("*")
            star = True
        mark = "**" if each.kind is each.VAR_KEYWORD else ""
        default = "" if each.default is each.empty else f"={each.default!r}"
        words.append(f"{mark}{each.name}{default}")
    return f"{name}({', '.join(words)})"


def _summary(method: Any) -> str:
    text = inspect.getdoc(method) or ""
    first = text.partition("\n\n")[0]
    return "" if first.startswith("Raises:") else " ".join(first.split())


def main() -> None:
    PAGE.write_text(updated(PAGE.read_text()))


if __name__ == "__main__":
    main()
