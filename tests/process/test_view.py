"""`ludolf view`, asked over plain HTTP: who is let in, what is told, what is left alone."""

import http.client
import json
import os
import re
import signal
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ludolf.base import dumps, loads
from tests.export_page import answer, header, message, text
from tests.process.forks import ForkedProgram
from tests.process.harness import WAIT_SECONDS, Lab
from tests.process.script import answer as scripted

HINT = b"Open this address in a browser (--open does it). Ctrl-C ends the view.\n"


class View:
    """The program while it serves a file."""

    def __init__(self, lab: Lab, *words: str, **env: str) -> None:
        self.process = ForkedProgram(["view", *words], str(lab.work), {**lab.env, **env})
        self.process.stdin.close()
        self.name = self.process.stdout.readline().decode().strip()
        self.url = self.process.stdout.readline().decode().strip()
        self.port = urlsplit(self.url).port or 0
        self.root = urlsplit(self.url).path

    def ask(
        self, path: str, *, method: str = "GET", **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response, body

    def status(self, path: str, **headers: str) -> int:
        return self.ask(path, **headers)[0].status

    @contextmanager
    def events(self, **headers: str) -> "Iterator[Events]":
        """An open stream of events."""
        place = ("127.0.0.1", self.port)
        connection = http.client.HTTPConnection(*place, timeout=2 * WAIT_SECONDS)
        connection.request("GET", f"{self.root}events", headers=headers)
        response = connection.getresponse()
        try:
            yield Events(response)
        finally:
            response.close()
            connection.close()

    def end(self, number: int = signal.SIGINT, *, complaint: str = "") -> int:
        """Stop it; gives the exit code. It has nothing else to complain about."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(WAIT_SECONDS)
        if not self.process.stdout.closed:
            with self.process as ended:
                assert ended.stdout.readall() in (b"", HINT, HINT[HINT.index(b"Ctrl-C") :])
                assert ended.stderr.readall().decode() == complaint
        return code


class Events:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def next(self) -> dict[str, str]:
        """The fields of the next event; comments and the time between tries are passed over."""
        fields: dict[str, str] = {}
        while line := self._response.readline().decode().rstrip("\n"):
            if not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
        return fields if "event" in fields else self.next()


@pytest.fixture
def source(lab: Lab) -> Path:
    path = lab.work / "session.jsonl"
    lines = (header(cwd=str(lab.work)), message("u1", None, "user", content="Begin"))
    path.write_bytes(b"".join(dumps(line) + b"\n" for line in lines))
    return path


@pytest.fixture
def view(lab: Lab, source: Path) -> Iterator[View]:
    served = View(lab, str(source))
    yield served
    served.end()


def _append(path: Path, *lines: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.writelines(dumps(line) + b"\n" for line in lines)


# ---------------------------------------------------------------- who is let in


def test_the_address_is_on_loopback_with_a_token_that_is_new_each_time(
    view: View, lab: Lab, source: Path
) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", view.url)
    other = View(lab, str(source))
    assert urlsplit(other.url).path != view.root
    other.end()


def test_nobody_is_let_in_without_the_token(view: View) -> None:
    wrong = view.root[:-2] + ("A" if view.root[-2] != "A" else "B") + "/"
    for path in ("/", "/events", wrong, f"{wrong}events", f"{view.root}nothing", view.root[:-1]):
        response, body = view.ask(path)
        assert (response.status, b"Begin" in body) == (404, False)
    assert view.status(view.root) == 200


def test_a_foreign_name_or_page_is_refused_even_with_the_token(view: View) -> None:
    for headers in (
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": f"127.0.0.1.evil.example:{view.port}"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
    ):
        for place in ("", "events", "news?after=x-0", "session.jsonl"):
            response, body = view.ask(view.root + place, **headers)
            assert (response.status, b"Begin" in body) == (403, False), (headers, place)


def test_a_link_may_lead_there_and_the_page_may_ask(view: View) -> None:
    own = f"http://127.0.0.1:{view.port}"
    assert view.status(view.root, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate") == 200
    assert view.status(view.root, Origin=own, Sec_Fetch_Site="same-origin") == 200
    assert view.status(view.root, Host=f"localhost:{view.port}") == 200


def test_nothing_but_reading_is_possible(view: View) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert view.ask(view.root, method=method)[0].status == 405


def test_only_loopback_is_listened_to(view: View) -> None:
    listening = Path(f"/proc/{view.process.pid}/net/tcp").read_text().splitlines()[1:]
    places = {line.split()[1] for line in listening if line.split()[3] == "0A"}
    assert f"0100007F:{view.port:04X}" in places
    assert f"00000000:{view.port:04X}" not in places


def test_the_page_says_strictly_what_it_may_do(view: View) -> None:
    response, body = view.ask(view.root)
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "'unsafe" not in policy
    for name, value in (
        ("Cache-Control", "no-store"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Content-Type", "text/html; charset=utf-8"),
    ):
        assert response.headers[name] == value
    assert "Begin" in body.decode()
    assert view.root not in body.decode()


# ---------------------------------------------------------------- what is told


def _count(event: dict[str, str]) -> int:
    return int(json.loads(event["data"])["count"])


def _news(view: View, after: str) -> tuple[int, str]:
    response, body = view.ask(f"{view.root}news?after={after}")
    return response.status, body.decode()


def test_growth_is_told_with_an_id_and_fetched_from_there(view: View, source: Path) -> None:
    with view.events() as events:
        first = events.next()
        _append(source, answer("a1", "u1", text("Going on")))
        second = events.next()
    assert [first["event"], second["event"]] == ["grown", "grown"]
    assert [_count(first), _count(second)] == [1, 2]
    assert second["id"].endswith("-2")
    status, body = _news(view, first["id"])
    assert status == 200
    assert re.findall(r'<article [^>]*id="entry-(\w+)"', body) == ["a1"]


def test_who_comes_back_hears_only_of_what_was_missed(view: View, source: Path) -> None:
    with view.events() as events:
        known = events.next()["id"]
    _append(source, answer("a1", "u1", text("Missed")))
    with view.events(**{"Last-Event-ID": known}) as events:
        missed = events.next()
    assert _count(missed) == 2
    with view.events(**{"Last-Event-ID": missed["id"]}) as events:
        _append(source, answer("a2", "a1", text("New")))
        assert _count(events.next()) == 3


def test_a_torn_line_is_told_when_it_is_whole(view: View, source: Path) -> None:
    line = dumps(answer("a1", "u1", text("Half and half"))) + b"\n"
    with view.events() as events, source.open("ab", buffering=0) as file:
        events.next()
        file.write(line[:50])
        _, page = view.ask(view.root)
        file.write(line[50:])
        assert _count(events.next()) == 2
    assert b'id="entry-a1"' not in page


def test_a_replaced_file_is_another_reading(view: View, source: Path) -> None:
    other = source.with_name("other")
    other.write_bytes(dumps(header()) + b"\n")
    _append(other, message("v1", None, "user", content="Another"))
    with view.events() as events:
        known = events.next()["id"]
        other.replace(source)
        told = events.next()
    assert told["id"].partition("-")[0] != known.partition("-")[0]
    assert _news(view, known)[0] == 409
    assert b"Another" in view.ask(view.root)[1]


@pytest.mark.parametrize("after", ["", "nonsense", "-1", "x-", "x-" + "9" * 5000, "x-%D9%A3"])
def test_a_mark_that_is_none_is_a_bad_request(view: View, after: str) -> None:
    status, body = _news(view, after)
    assert (status, body) == (400, "`after` is not a mark.\n")


def test_a_link_in_the_place_of_the_file_is_not_followed(lab: Lab, source: Path) -> None:
    view = View(lab, str(source))
    before = source.read_bytes()
    other = source.with_name("other")
    other.write_bytes(before + dumps(message("p1", "u1", "user", content="ELSEWHERE")) + b"\n")
    source.unlink()
    source.symlink_to(other)
    assert view.ask(f"{view.root}session.jsonl")[1] == before
    assert b"ELSEWHERE" not in view.ask(view.root)[1]
    view.end(complaint=f"The session file became a link, which is not followed: {source}\n")


def test_the_file_can_be_had_as_it_is(view: View, source: Path) -> None:
    response, body = view.ask(f"{view.root}session.jsonl")
    assert body == source.read_bytes()
    assert response.headers["Content-Disposition"] == "attachment"


def test_the_end_is_told_and_is_no_failure(view: View) -> None:
    with view.events() as events:
        events.next()
        view.process.send_signal(signal.SIGINT)
        assert events.next()["event"] == "end"
    # Without a second signal, which would cut its farewell short.
    assert view.process.wait(WAIT_SECONDS) == 0


def test_a_signal_to_end_ends_it(view: View) -> None:
    assert view.end(signal.SIGTERM) == 128 + signal.SIGTERM


# ---------------------------------------------------------------- what is left alone


def test_nothing_is_written_and_nothing_is_locked(view: View, lab: Lab, source: Path) -> None:
    def state() -> tuple[bytes, int, list[Path]]:
        return source.read_bytes(), source.stat().st_mtime_ns, sorted(lab.root.rglob("*"))

    before = state()
    with view.events() as events:
        events.next()
        view.ask(view.root)
        assert state() == before
        lab.server.add(scripted("Answered."))
        done = lab.run("--session", str(source), "-p", "Go on")
        assert (done.stdout, done.stderr) == (b"Answered.\n", "")
        assert _count(events.next()) > 1


def test_a_file_that_may_only_be_read_can_be_watched(lab: Lab, source: Path) -> None:
    source.chmod(0o400)
    source.parent.chmod(0o500)
    try:
        served = View(lab, str(source))
        assert served.status(served.root) == 200
        assert served.end() == 0
    finally:
        source.parent.chmod(0o700)


# ---------------------------------------------------------------- the command line


def test_the_last_session_of_the_folder_is_the_default(lab: Lab) -> None:
    lab.server.add(scripted("Hello."))
    lab.run("-p", "--name", "Greeting", "Hi")
    served = View(lab)
    assert served.name == "Greeting"
    assert b"Hello." in served.ask(served.root)[1]
    served.end()


def test_a_session_without_a_name_is_announced_by_its_first_prompt(lab: Lab) -> None:
    lab.server.add(scripted("Hello."))
    lab.run("-p", "Is the harbour open?")
    served = View(lab)
    assert served.name == "Is the harbour open?"
    served.end()


def test_all_sessions_are_listed_by_folder_with_their_live_pages(lab: Lab) -> None:
    lab.server.add(scripted("Hello."))
    lab.run("-p", "Is the <b>harbour</b> open?")
    path = lab.run("sessions", "list", "--json").records[0]["path"]
    head = loads(Path(path).read_bytes().splitlines()[0]) | {"id": "other", "cwd": "/srv/ot&her"}
    other = Path(path).parent.with_name("--srv--") / "o.jsonl"
    other.parent.mkdir()
    other.write_bytes(dumps(head) + b"\n")
    served = View(lab, "--all")
    assert served.name == "All sessions"
    response, body = served.ask(served.root)
    page = body.decode()
    assert "script" not in (response.headers["Content-Security-Policy"] or "")
    assert f"<h2>{lab.work}</h2>" in page
    assert "<h2>/srv/ot&amp;her</h2>" in page
    assert "Is the &lt;b&gt;harbour&lt;/b&gt; open?" in page
    keys = re.findall(r'<a href="([0-9a-f]{16}/)"', page)
    pages = [served.ask(served.root + key)[1] for key in keys]
    assert [b"Hello." in each for each in pages].count(True) == 1
    news = [served.ask(f"{served.root}{key}session.jsonl")[1] for key in keys]
    assert sorted(news) == sorted([Path(path).read_bytes(), other.read_bytes()])
    assert served.status(served.root + "0123456789abcdef/") == 404
    assert served.status("/wrong/" + keys[0]) == 404
    assert served.end() == 0


def test_all_and_a_session_contradict_each_other(lab: Lab) -> None:
    done = lab.run("view", "--all", "last")
    assert (done.code, done.stderr) == (
        1,
        "Error: --all shows every session. Leave out last, or --all.\n",
    )


def test_a_port_can_be_chosen_and_a_taken_one_is_told(lab: Lab, source: Path) -> None:
    with _server_of_our_own() as taken:
        port = taken.getsockname()[1]
        done = lab.run("view", str(source), "--port", str(port))
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr.startswith(f"Error: Cannot listen on port {port}: Address already in use.")
    served = View(lab, str(source), "--port", str(port))
    assert served.port == port
    served.end()


def _server_of_our_own() -> socket.socket:
    """On a port that the kernel gives to nobody by itself, so that it is free again later."""
    first = 20_000 + os.getpid() % 10_000
    for port in range(first, first + 1_000):
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise AssertionError("no port is free")


def test_a_number_that_is_no_port_is_told(lab: Lab, source: Path) -> None:
    done = lab.run("view", str(source), "--port", "99999")
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr.startswith("Error: Cannot listen on port 99999: ports are numbers from 0")


@pytest.mark.parametrize("content", [b"", b"no session\n"])
def test_what_is_no_session_is_refused(lab: Lab, content: bytes) -> None:
    (lab.work / "odd").write_bytes(content)
    done = lab.run("view", "./odd")
    assert (done.code, done.stdout) == (1, b"")
    assert done.stderr.startswith("Error: ")


def test_the_browser_is_opened_by_a_private_file(lab: Lab, source: Path) -> None:
    """Its arguments can be seen by all users of the machine, so the token is not among them."""
    told = lab.root / "told"
    browser = lab.root / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}.new && mv {told}.new {told}\n')
    browser.chmod(0o755)
    served = View(lab, str(source), "--open", BROWSER=f"{browser} %s")
    deadline = time.monotonic() + WAIT_SECONDS
    while not told.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    address = told.read_text().strip()
    assert address.startswith("file:///")
    place = Path(address.removeprefix("file://"))
    assert served.url in place.read_text()
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o600
    served.end()
    assert not place.exists()


def test_the_view_says_how_to_open_and_end_it(view: View) -> None:
    line = view.process.stdout.readline()
    assert line == HINT
