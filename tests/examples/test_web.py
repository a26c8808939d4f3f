"""The web host relays a session to pages that have the key, and to nobody else."""

import json
import signal
import sys
from contextlib import closing
from itertools import islice
from typing import Any

from tests.examples.ground import Ground
from tests.examples.web_host import HOST, Visitor, hosting
from tests.process.harness import WAIT_SECONDS, survivors, text_of


def _types(visitor: Visitor, last: str = "") -> list[str]:
    return [str(event.data.get("type")) for event in visitor.until("agent_settled", last)]


def test_a_page_is_told_what_happens(ground: Ground) -> None:
    ground.script({"text": "Hello.", "chunk": 2})
    with hosting(ground) as (visitor, _):
        assert visitor.command(type="prompt", message="Hi")["success"]
        events = visitor.until("agent_settled")
    assert events[0].kind == "begin"
    assert events[1].data["type"] == "state"
    assert [text_of(e.data["message"]) for e in events if "message" in e.data] == ["Hi", "Hello."]


def test_whoever_comes_late_gets_whole_messages_and_not_their_pieces(ground: Ground) -> None:
    ground.script({"text": "A long answer. " * 20, "chunk": 2})
    with hosting(ground) as (visitor, _):
        visitor.command(type="prompt", message="Hi")
        visitor.until("agent_settled")
        late = _types(visitor)
    assert late == ["None", "state", "message_end", "message_end", "agent_settled"]


def test_whoever_comes_back_goes_on_where_they_were(ground: Ground) -> None:
    ground.script({"text": "Hello."}, {"text": "Again."})
    with hosting(ground) as (visitor, _):
        visitor.command(type="prompt", message="Hi")
        last = visitor.until("agent_settled")[-1].id
        visitor.command(type="prompt", message="And?")
        more = visitor.until("agent_settled", last)
        other = visitor.until("agent_settled", "another.7")
    assert [text_of(e.data["message"]) for e in more if "message" in e.data] == ["And?", "Again."]
    assert other[0].kind == "begin"


def test_a_session_that_is_continued_is_shown_from_its_beginning(ground: Ground) -> None:
    ground.script({"text": "Hello."})
    assert ground.run("ludolf", "-p", "Hi").code == 0
    with hosting(ground, "-c") as (visitor, _), closing(visitor.events()) as events:
        _, _, question, answer = islice(events, 4)
    assert [text_of(each.data["message"]) for each in (question, answer)] == ["Hi", "Hello."]


def test_a_run_is_stopped(ground: Ground) -> None:
    ground.script({"text": "Let me think", "hang": True})
    with hosting(ground) as (visitor, _):
        visitor.command(type="prompt", message="Go")
        visitor.until("message_update")
        assert visitor.command(type="abort")["success"]
        *_, end, settled = visitor.until("agent_settled")
    assert end.data["message"]["stopReason"] == "aborted"
    assert settled.data["type"] == "agent_settled"


def test_a_new_session_begins_a_new_story(ground: Ground) -> None:
    ground.script({"text": "Hello."})
    with hosting(ground) as (visitor, _):
        visitor.command(type="prompt", message="Hi")
        before = visitor.until("agent_settled")
        assert visitor.command(type="new_session")["success"]
        begin, state = visitor.until("state", before[-1].id)
    assert begin.kind == "begin"
    assert state.data["messageCount"] == 0


def test_without_the_key_there_is_nothing(ground: Ground) -> None:
    paths = ("/", "/page.js", "/events", "/icon.svg", "/nothing")
    with hosting(ground) as (visitor, _):
        for cookie in ("", f"ludolf-{visitor.port}=wrong", f"ludolf-{visitor.port}="):
            for path in paths:
                assert visitor.status("GET", path, Cookie=cookie) == 403
            assert visitor.status("POST", "/command", {"type": "abort"}, Cookie=cookie) == 403


def test_the_key_becomes_a_cookie_that_scripts_and_other_sites_do_not_have(ground: Ground) -> None:
    with (
        hosting(ground) as (visitor, _),
        visitor.asking("GET", f"/?key={visitor.key}", Cookie="") as response,
    ):
        assert (response.status, response.headers["Location"]) == (303, "/")
        cookie = str(response.headers["Set-Cookie"])
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_pages_of_others_cannot_use_the_key(ground: Ground) -> None:
    abort = {"type": "abort"}
    with hosting(ground) as (visitor, _):
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
            assert visitor.status("POST", "/command", abort, Origin=origin) == 403
        assert visitor.status("POST", "/command", abort, Host="evil.example") == 403
        own = f"http://127.0.0.1:{visitor.port}"
        assert visitor.status("POST", "/command", abort, Origin=own) == 200


def test_a_page_may_ask_for_a_few_things_only(ground: Ground) -> None:
    with hosting(ground) as (visitor, _):
        bodies: list[Any] = [{"type": "bash", "command": "id"}, {}, [], 7, "abort"]
        for body in bodies:
            assert visitor.status("POST", "/command", body) == 400


def test_every_file_forbids_what_it_does_not_need(ground: Ground) -> None:
    with hosting(ground) as (visitor, _):
        for path in ("/", "/page.js", "/page.css"):
            with visitor.asking("GET", path) as response:
                policy = str(response.headers["Content-Security-Policy"])
            assert policy.startswith("default-src 'none'")
            assert "unsafe" not in policy


def test_host_and_program_end_together(ground: Ground) -> None:
    with hosting(ground) as (visitor, process), closing(visitor.events()) as events:
        next(events)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 0
    assert survivors(ground.pids) == []


def test_the_end_of_the_program_is_told_and_ends_the_host(ground: Ground) -> None:
    command = (sys.executable, str(HOST), "--port", "0", "-e", "end.py")
    end = "def extension(api):\n    @api.command('end')\n    async def end(args, ctx):\n        "
    (ground.work / "end.py").write_text(end + "ctx.shutdown()\n")
    with ground.started(*command) as process:
        assert process.stdout is not None
        visitor = Visitor(process.stdout.readline().decode().split()[1])
        with closing(visitor.events()) as events:
            next(events)
            visitor.status("POST", "/command", {"type": "prompt", "message": "/end"})
            assert "ended" in [event.data.get("type") for event in events]
        assert process.wait(WAIT_SECONDS) == 0


def test_a_program_that_cannot_start_ends_the_host(ground: Ground) -> None:
    done = ground.run(sys.executable, str(HOST), "--port", "0", "--model", "nobody/nothing")
    assert (done.code, done.stdout) == (1, b"")
    assert 'Model "nobody/nothing" not found' in done.stderr
    assert "Traceback" not in done.stderr


def test_events_are_single_lines_whatever_is_said(ground: Ground) -> None:
    ground.script({"text": "a\nb\r\nc\u2028d\n\nevent: begin\n\n"})
    with hosting(ground) as (visitor, _):
        visitor.command(type="prompt", message="Go")
        events = visitor.until("agent_settled")
    assert [event.kind for event in events].count("begin") == 1
    said = [e.data for e in events if e.data.get("type") == "message_end"][-1]
    assert json.dumps(text_of(said["message"])).startswith('"a\\nb\\r\\nc\\u2028d')
