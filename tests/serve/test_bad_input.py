"""What hostile and broken input gets: an error reply, and the connection lives."""

import random
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import dumps
from ludolf.protocol.server import SERVER_COMMANDS
from ludolf.rpc.line_reader import TOO_LONG
from tests.loop.stage import say, stage
from tests.serve.service import Client, service

WRONG: tuple[Any, ...] = (5, -1, 1.5, True, "x", "", [], {}, [{}], {"a": None}, "\ud800", None)
FIELDS = {
    "hello": ("client", "name", "dialect", "bare", "protocol"),
    "open": ("cwd", "session", "env", "options", "role", "wait"),
    "attach": ("session", "cursor", "entry", "last", "role", "wait", "env"),
    "detach": ("session",),
    "close": ("session",),
    "list": ("all",),
    "clients": ("session",),
    "ping": ("session",),
}


class Guard:
    def accepts(self, token: str | None) -> bool:
        return token == "right"


async def _lives(client: Client) -> None:
    assert (await client.ask("ping"))["success"]


# ---------------------------------------------------------------- broken lines


async def test_broken_lines_get_an_error_and_the_next_ones_are_read(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        session = (await client.open())["session"].encode()
        lines = (
            b"{", b"nonsense", b"null", b"[]", b"5", b'"x"', b"{}", b'{"type":5}', b"\xff\xfe",
            b'{"type":"ping"', b'{"type":"ping"}}', b"[" * 5_000, b'{"a":' * 5_000, TOO_LONG,
            b'{"type":"ping","id":' + b"9" * 5_000 + b'x}',
        )  # fmt: skip
        since = len(client.frames)
        client.feed(b"", b"   ", *lines)
        await _lives(client)
        replies = client.of_type("response", since)[:-1]
        assert [each["command"] for each in replies] == ["parse"] * len(lines)
        odd = (
            b'{"type":"get_state","session":"\xff"}',
            b'{"type":"get_state","session":"\\ud800","id":"\\udfff"}',
            b'{"type":"get_state","session":5}',
            b'{"type":"get_state","session":{}}',
            b'{"type":"nonsense","id":"\xff"}',
            b'{"type":"open","isolated":5,"cwd":"\xff"}',
            b'{"type":"attach","session":"\xff\\ud800"}',
        )
        since = len(client.frames)
        client.feed(*odd)
        await _lives(client)
        replies = client.of_type("response", since)[:-1]
        assert [each["success"] for each in replies] == [False] * len(odd)
        good = b'\xef\xbb\xbf{"type":"get_state","session":"%b","id":"\xff"}' % session
        client.feed(good)
        await client.until(lambda each: each.get("command") == "get_state" and each["success"])


@pytest.mark.parametrize("bare", [False, True])
async def test_any_bytes_leave_the_connection_alive(tmp_path: Path, bare: bool) -> None:
    chance = random.Random(7)
    pieces = (
        b'{"type":', b'"prompt"', b'"get_state"', b'"open"', b'"attach"',
        b'"extension_ui_response"',
        b',"session":', b',"id":', b'"x"', b"null", b"5", b"{}", b"}", b"\xff", b'"\\ud800"', b"[",
        b'"host_tool_result"', b',"cursor":', b',"message":', b'"hello"', b'"close"', b'"clone"',
    )  # fmt: skip
    async with service(tmp_path, max_loaded=4) as s:
        client = await s.join("a", bare=bare)
        await client.open()
        for _ in range(1_500):
            line = b"".join(chance.choices(pieces, k=chance.randrange(1, 8)))
            if b'"hello"' not in line or not bare:
                client.feed(line)
        other = await s.join("b")
        await _lives(other)
        assert client.connection in s.server.connections
        if not bare:
            await _lives(client)


async def test_a_giant_frame_is_answered(tmp_path: Path) -> None:
    async with service(tmp_path, say("Long.")) as s:
        client = await s.join("a")
        await client.open()
        text = "x" * (3 << 20)
        assert (await client.refusal("attach", session=text))[0].startswith("Unknown session: xxx")
        assert (await client.refusal(text))[0].startswith("Unknown command: xxx")
        assert (await client.refusal("open", options={text: 1}))[0].startswith("open: unknown opt")
        await client.run("y" * 100_000)


# ---------------------------------------------------------------- commands of the server


async def test_wrong_types_in_commands_of_the_server_get_an_error(tmp_path: Path) -> None:
    async with service(tmp_path, max_loaded=100) as s:
        client = await s.join("a")
        assert FIELDS.keys() == SERVER_COMMANDS.keys() - {"shutdown"}
        opened = await client.open()
        for name, fields in FIELDS.items():
            for field in fields:
                for value in WRONG:
                    given = {"session": opened["session"]} if name == "attach" else {}
                    reply = await client.ask(name, **{**given, field: value})
                    if not reply["success"]:
                        assert len(reply["error"]) < 2_000
                    if name == "hello":
                        await client.hello()
                    if name == "close":
                        await client.open()
        for wrong in WRONG[4:8]:
            text = (await client.refusal("shutdown", drain=wrong))[0]
            assert text == 'shutdown: missing or invalid "drain"'
        assert not s.server.closing


async def test_a_cursor_that_is_none_gets_a_snapshot(tmp_path: Path) -> None:
    async with service(tmp_path, say("Hello.")) as s:
        client = await s.join("a")
        opened = await client.open()
        await client.run("hi")
        epoch = opened["cursor"].partition("-")[0]
        last = s.slot(opened["session"]).log.last
        wrong: tuple[Any, ...] = (
            "",
            "-",
            "x",
            f"{epoch}-",
            f"{epoch}-x",
            f"{epoch}--1",
            f"{epoch}-{last + 1}",
        )
        for cursor in (
            *wrong,
            f"{epoch}-{'9' * 40}",
            "0000-1",
            f"{epoch}-²",
            5,
            None,
            [],
            {},
            True,
        ):
            data = await client.data("attach", session=opened["session"], cursor=cursor)
            assert (data["mode"], data["cursor"]) == ("snapshot", f"{epoch}-{last}")
        data = await client.data("attach", session=opened["session"], cursor=f"{epoch}-{last}")
        assert (data["mode"], data["replayed"]) == ("replay", 0)
        for entry in ("nothing", "\ud800", ""):
            data = await client.data("attach", session=opened["session"], entry=entry)
            assert data["entries"]
        few = await client.data("attach", session=opened["session"], last=1)
        assert (len(few["entries"]), few["more"]) == (1, True)
        none = await client.data("attach", session=opened["session"], last=-5)
        assert none["entries"] == []
        assert len((await client.data("attach", session=opened["session"], last=10**9))["entries"])


async def test_a_protocol_or_dialect_that_is_not_known_is_refused(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = s.client("a").connect()
        for protocol in (2, 0, "1", *WRONG):
            text, code = await client.refusal("hello", protocol=protocol)
            assert text.endswith("is not supported; this server has 1.")
            assert code == "unsupported"
        text, code = await client.refusal("hello", dialect="klingon")
        assert text.startswith("Unknown dialect: klingon. Known: ")
        assert code == "unsupported"
        await client.data("hello")


async def test_a_command_without_a_session_is_refused(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        for name in ("get_state", "clients", "detach", "close", "abort"):
            assert (await client.refusal(name))[0] == "Name a session, or open one first."
        assert (await client.refusal("nonsense")) == (
            "Unknown command: nonsense",
            "unknown_command",
        )


async def test_commands_of_the_server_are_unknown_in_rpc_mode(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        for name in SERVER_COMMANDS:
            assert await s.refusal(name, session="x") == f"Unknown command: {name}"


# ---------------------------------------------------------------- tokens


async def test_a_connection_without_the_token_learns_nothing(tmp_path: Path) -> None:
    async with service(tmp_path, guard=Guard()) as s:
        owner = await s.join("owner")
        session = (await owner.open())["session"]
        lines: tuple[dict[str, Any], ...] = (
            {"type": "list"},
            {"type": "attach", "session": session},
            {"type": "hello"},
            {"type": "hello", "token": "wrong"},
            {"type": "nonsense"},
            {},
        )
        for line in lines:
            client = s.client("a").connect(remote=True, trusted=False)
            client.feed(dumps({**line, "id": "1"}), *[dumps({"type": "hello", "token": "right"})])
            assert await client.closed() == 4401
            (reply,) = client.frames
            assert (reply["success"], reply["id"]) == (False, "1")
            assert session not in str(reply)
        assert s.server.figures.refused_logins == 2
        client = s.client("a").connect(remote=True, trusted=False)
        await client.data("hello", token="right")
        assert (await client.data("list"))["sessions"][0]["session"] == session
        assert len(s.server.connections) == 2


async def test_the_reply_to_an_unknown_session_names_it(tmp_path: Path) -> None:
    async with service(tmp_path) as s:
        client = await s.join("a")
        reply = await client.ask("get_state", session="01-none")
        assert (reply["session"], reply["success"]) == ("01-none", False)
        assert reply["code"] == "unknown_session"
