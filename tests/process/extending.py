"""Extensions for process tests: laid where the program finds them, and what they said."""

from collections.abc import Callable, Iterable
from pathlib import Path
from textwrap import dedent

import ludolf.ext.examples
from ludolf.base import loads
from ludolf.client import Client, Record
from tests.process.harness import Lab

EXAMPLES = Path(ludolf.ext.examples.__path__[0])


def example(name: str) -> str:
    """The path of a shipped extension."""
    return str(EXAMPLES / f"{name}.py")


def lay(lab: Lab, source: str, name: str = "mine.py") -> Path:
    """An extension of the user's."""
    return write(lab.agent / "extensions" / name, source)


def lay_in_project(lab: Lab, source: str, name: str = "ours.py") -> Path:
    return write(lab.work / ".pi" / "extensions" / name, source)


def write(path: Path, source: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(source))
    return path


def told(lab: Lab) -> list[Record]:
    """All that the program has said to a client."""
    return [loads(line) for line in lab.lines]


def asked(records: Iterable[Record], method: str | None = None) -> list[Record]:
    """The requests of extensions to the user, or those of one method."""
    requests = [one for one in records if one["type"] == "extension_ui_request"]
    return [one for one in requests if method in (None, one["method"])]


def notes(lab: Lab) -> list[str]:
    """The texts of all notices."""
    return [one["message"] for one in asked(told(lab), "notify")]


def errors(records: Iterable[Record]) -> list[tuple[str, str]]:
    """Event and text of all reported errors of extensions."""
    found = [one for one in records if one["type"] == "extension_error"]
    return [(one["event"], one["error"]) for one in found]


def is_dialog(method: str) -> Callable[[Record], bool]:
    return lambda one: one["type"] == "extension_ui_request" and one["method"] == method


async def dialog(client: Client, method: str) -> Record:
    """The next dialog of this kind."""
    return await client.wait_for(is_dialog(method))


async def reply(client: Client, request: Record, **answer: object) -> None:
    """Answer a dialog; no response comes to that."""
    await client.send("extension_ui_response", id=request["id"], **answer)
