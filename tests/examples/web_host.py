"""The web example as a running host, and a bare visitor of it."""

import http.client
import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ludolf.client import Record
from tests.examples.ground import EXAMPLES, Ground
from tests.process.harness import WAIT_SECONDS

HOST = EXAMPLES / "web" / "host.py"


class Event(msgspec.Struct, frozen=True):
    """One server-sent event."""

    id: str
    kind: str
    data: Record


class Visitor:
    """Speaks plain HTTP with the host, with the key or without."""

    def __init__(self, address: str) -> None:
        self.address = address
        place = urlsplit(address)
        self.port = place.port
        self.key = place.query.removeprefix("key=")
        self.headers = {"Cookie": f"ludolf-{self.port}={self.key}"}

    @contextmanager
    def asking(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        text = None if body is None else json.dumps(body)
        with closing(connection):
            connection.request(method, path, text, {**self.headers, **headers})
            with connection.getresponse() as response:
                yield response

    def status(self, method: str, path: str, body: Any = None, **headers: str) -> int:
        with self.asking(method, path, body, **headers) as response:
            return response.status

    def command(self, **frame: Any) -> Any:
        with self.asking("POST", "/command", frame) as response:
            assert response.status == 200
            return json.load(response)

    def events(self, last: str = "") -> Generator[Event, None, None]:
        """What the page is told, for as long as somebody asks for more."""
        with self.asking("GET", "/events", **{"Last-Event-ID": last}) as response:
            assert response.status == 200
            fields: dict[str, str] = {}
            for line in response:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                    continue
                kind = fields.get("event", "message")
                yield Event(fields.get("id", ""), kind, json.loads(fields["data"]))
                fields = {}

    def until(self, kind: str, last: str = "") -> list[Event]:
        """The events up to the first of this type."""
        found: list[Event] = []
        with closing(self.events(last)) as events:
            for event in events:
                found.append(event)
                if event.data.get("type") == kind:
                    return found
        raise AssertionError(f"no {kind}")


@contextmanager
def hosting(ground: Ground, *options: str) -> Iterator[tuple[Visitor, "subprocess.Popen[bytes]"]]:
    """The host on a free port; ended in the end as a user would."""
    with ground.started(sys.executable, str(HOST), "--port", "0", *options) as process:
        assert process.stdout is not None
        words = process.stdout.readline().decode().split()
        assert words[:1] == ["Open"], words
        yield Visitor(words[1]), process
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 0
