"""Whatever an extension in TypeScript does, the agent lives and answers."""

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

from ludolf.base import loads
from ludolf.client import Client, Record
from tests.process.extending import asked, dialog, errors, notes, reply, told
from tests.process.harness import Lab, messages, text_of, write_all
from tests.process.script import answer, call
from tests.script_host import lay_script, needs_node

pytestmark = needs_node


async def _say(client: Client, text: str) -> None:
    assert (await client.request("prompt", message=text))["success"]


def _has_errors(*texts: str) -> Callable[[Record], bool]:
    left = set(texts)

    def are_all_seen(one: Record) -> bool:
        left.discard(str(one.get("error")))
        return not left

    return are_all_seen


def _statuses(lab: Lab, key: str) -> list[str]:
    shown = asked(told(lab), "setStatus")
    return [one["statusText"] for one in shown if one["statusKey"] == key]


async def test_errors_of_commands_timers_and_promises_are_reported(lab: Lab) -> None:
    lay_script(lab, "faults")
    async with lab.client() as client:
        for name in ("throws", "exits", "timer", "rejects", "prints", "circle", "big"):
            await _say(client, f"/{name}")
        await client.wait_for(_has_errors("late", "lost"))
        await _say(client, "/hello")
    found = errors(told(lab))
    assert ("command", "no such thing") in found
    assert any("process.exit(3) was called" in text for _, text in found)
    assert ("uncaught exception", "late") in found
    assert ("unhandled rejection", "lost") in found
    assert any("circular" in text for _, text in found)
    assert any("BigInt" in text for _, text in found)
    assert notes(lab)[0].startswith("alive")
    assert "to stdout" in client.process.stderr


async def test_a_flood_of_statuses_is_merged_and_large_texts_arrive(lab: Lab) -> None:
    lay_script(lab, "faults")
    lab.server.add(answer(call("large", {})), answer("Done."))
    async with lab.client() as client:
        await _say(client, "/floods")
        await _say(client, "/shouts")
        await client.prompt_and_collect("Go")
    numbers = _statuses(lab, "n")
    assert numbers[-1] == "199999"
    assert len(numbers) < 1000
    assert [len(text) for text in notes(lab)] == [5_000_000]
    (result,) = [one for one in messages(lab.entries) if one["role"] == "toolResult"]
    assert len(text_of(result)) == 3_000_000


def test_statuses_of_timers_are_merged_while_the_host_does_not_read(lab: Lab) -> None:
    lay_script(lab, "faults")
    os.mkfifo(lab.work / "ticked")
    with lab.popen() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        write_all(process.stdin, b'{"type":"prompt","message":"/ticks"}\n')
        assert (lab.work / "ticked").read_text() == "all\n"
        assert _resident_mib(process.pid) < 100
        write_all(process.stdin, b'{"type":"get_state","id":"g"}\n')
        left = {b'"id":"g"', b'"statusText":"99999"', b'"widgetLines":["99999"]'}
        count = 0
        while left:
            line = process.stdout.readline()
            left -= {text for text in left if text in line}
            count += 1
        assert count < 50_000  # of 200,000


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def test_an_abort_settles_a_deaf_tool_and_shows_what_a_polite_one_says(lab: Lab) -> None:
    lay_script(lab, "faults")
    lab.server.add(answer(call("deaf", {}, "a"), call("polite", {}, "b")))
    async with lab.client() as client:
        await client.request("prompt", message="Go")
        for text in ("listening", "busy"):
            await client.wait_for(_shows(text))
        assert (await client.request("abort"))["success"]
        await client.wait_for(lambda one: one["type"] == "agent_settled")
    results = [one for one in messages(lab.entries) if one["role"] == "toolResult"]
    assert [text_of(one) for one in results] == ["Operation aborted", "put down"]
    assert "the run was aborted" in notes(lab)


def _shows(text: str) -> Callable[[Record], bool]:
    def shown(one: Record) -> bool:
        return one["type"] == "tool_execution_update" and text in str(one["partialResult"])

    return shown


async def test_a_process_that_dies_is_started_again_once_and_then_refuses(lab: Lab) -> None:
    lay_script(lab, "faults")
    lab.server.add(
        answer(call("read", {"path": "x"}, "a"), call("large", {}, "b")), answer("Done.")
    )
    async with lab.client() as client:
        await _say(client, "/hello")
        await _say(client, "/dies")
        await client.wait_for(lambda one: one.get("statusText") == "reload")
        await _say(client, "/hello")
        await _say(client, "/dies")
        await client.prompt_and_collect("Go")
        assert (await client.request("reload"))["success"]
        await _say(client, "/hello")
    assert len(set(notes(lab))) == 3
    hosts = [text for event, text in errors(told(lab)) if event == "host"]
    assert ["started again" in text for text in hosts] == [True, False]
    results = [text_of(one) for one in messages(lab.entries) if one["role"] == "toolResult"]
    gone = "The process of script extensions was ended by signal 9"
    assert results == [gone, gone]


async def test_the_gate_of_a_script_that_does_not_load_again_stays_closed(lab: Lab) -> None:
    lay_script(lab, "faults")
    lab.server.add(answer(call("read", {"path": "broken"})), answer("Done."))
    async with lab.client() as client:
        await client.ask("get_commands")
        (lab.work / "broken").touch()
        await _say(client, "/dies")
        await client.wait_for(lambda one: one.get("error") == "does not load any more")
        await client.prompt_and_collect("Go")
    (result,) = [one for one in messages(lab.entries) if one["role"] == "toolResult"]
    assert text_of(result) == "The process of script extensions was ended by signal 9"


async def test_a_handler_that_never_answers_is_cut_after_its_time(lab: Lab) -> None:
    lab.settings(handlerTimeoutMs={"input": 300})
    lay_script(lab, "faults")
    lab.server.add(answer("Hello."), answer("Hello."))
    async with lab.client() as client:
        await client.prompt_and_collect("hang")
        await client.send("prompt", message="ask")
        await reply(client, await dialog(client, "confirm"), confirmed=True)
        await client.wait_for(lambda one: one["type"] == "agent_settled")
    cut = [text for event, text in errors(told(lab)) if event == "input"]
    assert cut == ["took longer than 300 ms"]
    assert notes(lab) == ["answered true"]


def test_a_spinning_script_hinders_no_getter_and_ends_with_a_killed_agent(lab: Lab) -> None:
    lay_script(lab, "faults")
    with lab.popen() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        write_all(process.stdin, b'{"type":"prompt","message":"/spins"}\n')
        number = int(_line_with(process.stdout, "spins ")["message"].split()[1])
        write_all(process.stdin, b'{"type":"get_state","id":"g"}\n')
        assert _line_with(process.stdout, '"g"')["success"]
        handle = os.pidfd_open(number)
        os.kill(process.pid, signal.SIGKILL)
    with os.fdopen(handle) as script:
        assert select.select((script,), (), (), 30)[0]


def _line_with(stream: IO[bytes], text: str) -> Record:
    while text.encode() not in (line := stream.readline()):
        assert line
    return cast(Record, loads(line))
