"""Whatever an extension does, the agent and its stdout come to no harm."""

import asyncio
import time

import pytest

from ludolf.base import loads
from tests.process.extending import errors, lay, notes, told
from tests.process.harness import Lab, messages, only, text_of, types
from tests.process.script import answer, bash, call

# ---------------------------------------------------------------- raising

RAISING = """
def extension(api):
    def raising(name):
        @api.on(name)
        async def fail(event, ctx):
            raise RuntimeError(f"{name} is broken")

    for name in ("session_start", "input", "before_agent_start", "agent_start", "turn_start",
                 "context", "before_provider_request", "after_provider_response", "message_start",
                 "message_update", "message_end", "tool_execution_start", "tool_result",
                 "tool_execution_end", "turn_end", "agent_end", "agent_before_settle",
                 "agent_settled", "session_shutdown"):
        raising(name)

    @api.command("boom")
    async def boom(args, ctx):
        raise ValueError("no such thing")
"""


async def test_a_raising_handler_is_reported_and_passed_over(lab: Lab) -> None:
    path = lay(lab, RAISING)
    lab.server.add(answer("Looking.", bash("echo hi")), answer("Done."))
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
        assert (await client.request("prompt", message="/boom"))["success"]
        await client.ask("get_state")
    reported = [one for one in told(lab) if one["type"] == "extension_error"]
    of_handlers = [one for one in reported if one["event"] != "command"]
    assert {one["extensionPath"] for one in of_handlers} == {str(path)}
    assert all(one["error"] == f"{one['event']} is broken" for one in of_handlers)
    assert len({one["event"] for one in of_handlers}) >= 18
    (command,) = [one for one in reported if one["event"] == "command"]
    assert (command["extensionPath"], command["error"]) == ("command:boom", "no such thing")
    roles = [one["role"] for one in messages(lab.entries)]
    assert roles == ["user", "assistant", "toolResult", "assistant"]


async def test_a_raising_gate_is_a_closed_gate(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.on("tool_call")
            def gate(event, ctx):
                raise RuntimeError("the gate is broken")

            @api.on("user_bash")
            def bash(event, ctx):
                raise RuntimeError("the gate is broken")
        """,
    )
    lab.server.add(answer(bash("touch a.txt")), answer("Done."))
    async with lab.client() as client:
        events = await client.prompt_and_collect("Go")
        refused = await client.request("bash", command="touch a.txt")
    (end,) = only(events, "tool_execution_end")
    assert (text_of(end["result"]), end["isError"]) == ("the gate is broken", True)
    assert refused["error"] == "the gate is broken"
    assert not (lab.work / "a.txt").exists()
    assert errors(told(lab)) == [
        ("tool_call", "the gate is broken"),
        ("user_bash", "the gate is broken"),
    ]


GATES = {
    "raises": ("event, ctx", "raise RuntimeError('oops')", "oops"),
    "parameters": ("event", "pass", "tool_call handlers must take (event, ctx): "),
    "no dict": ("event, ctx", "return True", "tool_call handlers must return a dict or None"),
    "a typo": ("event, ctx", "return {'blok': True}", "tool_call: unknown key 'blok'"),
}


@pytest.mark.parametrize("name", GATES)
def test_a_failing_gate_is_reported_on_stderr_and_the_model_reads_which_failed(
    lab: Lab, name: str
) -> None:
    parameters, body, text = GATES[name]
    path = lay(
        lab,
        f"""
        def extension(api):
            @api.on("tool_call")
            def gate({parameters}):
                {body}
        """,
    )
    lab.server.add(answer(bash("touch a.txt")), answer("Done."))
    done = lab.run("-p", "Go")
    assert done.code == 0
    assert not (lab.work / "a.txt").exists()
    shown = "RuntimeError: oops (" if text == "oops" else text
    assert f"Extension error ({path}, tool_call): {shown}" in done.stderr
    (result,) = [one for one in messages(lab.entries) if one["role"] == "toolResult"]
    assert text_of(result).startswith(
        f"The extension {path} failed, so this call was blocked: {text}"
    )


async def test_a_gate_with_a_typo_is_reported_to_the_host_and_the_call_blocked(lab: Lab) -> None:
    path = lay(
        lab,
        """
        def extension(api):
            api.on("tool_call", lambda event, ctx: {"blok": True})
        """,
    )
    lab.server.add(answer(bash("touch a.txt")), answer("Done."))
    async with lab.client() as client:
        events = await client.prompt_and_collect("Go")
    ((event, text),) = errors(told(lab))
    assert (event, "'blok'" in text) == ("tool_call", True)
    (end,) = only(events, "tool_execution_end")
    assert text_of(end["result"]).startswith(f"The extension {path} failed")
    assert not (lab.work / "a.txt").exists()


def test_errors_are_told_on_stderr_where_there_is_no_wire(lab: Lab) -> None:
    path = lay(lab, RAISING)
    lab.server.add(answer("Hello."))
    done = lab.run("-p", "Hi")
    assert (done.code, done.stdout) == (0, b"Hello.\n")
    told = f"RuntimeError: turn_start is broken ({path.name}, line 6)"
    assert f"Extension error ({path}, turn_start): {told}" in done.stderr


def test_a_failed_command_names_its_line_and_ends_print_mode_with_1(lab: Lab) -> None:
    path = lay(
        lab,
        """
        def extension(api):
            def boom(args, ctx):
                return {}["comand"]
            api.command("boom", boom)
        """,
    )
    done = lab.run("-p", "/boom")
    assert (done.code, lab.run("--mode", "json", "/boom").code) == (1, 1)
    assert f"KeyError: 'comand' ({path.name}, line 4)" in done.stderr


async def test_answers_of_the_wrong_shape_are_failures_of_the_handler(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            api.on("input", lambda event, ctx: "no dict")
            api.on("input", lambda event, ctx: {"action": "explode"})
            api.on("context", lambda event, ctx: {"messages": [{"role": "nobody"}]})
            api.on("tool_result", lambda event, ctx: {"content": [{"type": "nothing"}]})
        """,
    )
    lab.server.add(answer(bash("echo hi")), answer("Done."))
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
    failed = [event for event, _ in errors(told(lab))]
    assert failed == ["input", "input", "context", "tool_result", "context"]
    assert "hi\n" in [text_of(one) for one in messages(lab.entries)]


# ---------------------------------------------------------------- hanging

HANGING = """
import asyncio

def extension(api):
    @api.on({event!r})
    async def hang(event, ctx):
        ctx.ui.notify("here")
        await asyncio.sleep(3600)
"""
ENDABLE = [
    *("agent_start", "turn_start", "context", "before_provider_request", "before_provider_headers"),
    *("after_provider_response", "message_start", "message_update", "message_end"),
    *("tool_execution_start", "tool_call", "tool_result", "tool_execution_end", "turn_end"),
    *("agent_before_settle",),
]


@pytest.mark.parametrize("event", ENDABLE)
async def test_abort_ends_a_hanging_handler(lab: Lab, event: str) -> None:
    lay(lab, HANGING.format(event=event))
    lab.server.add(answer("Looking.", bash("echo hi")), answer("Done."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("extension_ui_request")
        started = time.monotonic()
        # A handler of later events may hang once more: it is not waited for a second time.
        await client.ask("abort")
        await client.wait_for("agent_settled")
        assert time.monotonic() - started < 10
        assert not (await client.ask("get_state"))["isStreaming"]


async def test_abort_ends_a_hanging_tool(lab: Lab) -> None:
    lay(
        lab,
        '''
        import asyncio

        def extension(api):
            @api.tool
            async def hang(*, ctx, update):
                """Hang."""
                update("here")
                try:
                    await asyncio.sleep(3600)
                finally:
                    ctx.ui.notify("cleaned up")
        ''',
    )
    lab.server.add(answer(call("hang", {})), answer("Later."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("tool_execution_update")
        assert (await client.request("abort"))["success"]
        await client.wait_for("agent_settled")
        await client.prompt_and_collect("Go on")
    assert notes(lab) == ["cleaned up"]


async def test_abort_leaves_a_plain_tool_behind_in_its_thread(lab: Lab) -> None:
    lay(
        lab,
        '''
        import time

        def extension(api):
            @api.tool
            def hang(*, update):
                """Hang."""
                update("here")
                time.sleep(3600)
        ''',
    )
    lab.server.add(answer(call("hang", {})), answer("Later."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("tool_execution_update")
        assert (await client.request("abort"))["success"]
        await client.prompt_and_collect("Go on")
        started = time.monotonic()
        await client.close()
    assert time.monotonic() - started < 10
    assert await client.process.wait() == 0


async def test_a_hanging_command_blocks_nobody(lab: Lab) -> None:
    lay(
        lab,
        """
        import asyncio

        def extension(api):
            @api.command("hang")
            async def hang(args, ctx):
                ctx.ui.notify("here")
                await asyncio.sleep(3600)
        """,
    )
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.send("prompt", message="/hang")
        await client.wait_for("extension_ui_request")
        await client.prompt_and_collect("Hi")
        assert (await client.ask("get_state"))["messageCount"] == 2


# ---------------------------------------------------------------- printing, exiting, forking


@pytest.mark.parametrize("mode", ["rpc", "json", "print"])
def test_what_an_extension_prints_stays_out_of_stdout(lab: Lab, mode: str) -> None:
    lay(
        lab,
        """
        import os, subprocess, sys
        print("STRAY on import")

        def extension(api):
            print("STRAY on load")
            os.write(1, b"STRAY on the descriptor\\n")
            sys.stdout.write("STRAY without end")
            sys.__stdout__.flush()
            subprocess.run(["echo", "STRAY of a child"])

            @api.on("session_start")
            def start(event, ctx):
                print("STRAY in a handler")
                subprocess.run(["cat"])
        """,
    )
    lab.server.add(answer("Hello."))
    if mode == "rpc":
        prompt = b'{"id":"p","type":"prompt","message":"Hi"}\n'
        done = lab.run("--mode", "rpc", stdin=prompt)
    else:
        done = lab.run(*(("-p",) if mode == "print" else ("--mode", "json")), "Hi")
    assert done.code == 0
    if mode == "print":
        assert done.stdout == b"Hello.\n"
    else:
        assert "agent_settled" in types(done.records)
        assert b"STRAY" not in done.stdout
    for place in ("import", "load", "descriptor", "child", "handler"):
        assert any(place in line for line in done.stderr.splitlines() if "STRAY" in line)


async def test_an_extension_that_exits_is_only_reported(lab: Lab) -> None:
    lay(
        lab,
        '''
        import sys

        def extension(api):
            @api.on("turn_start")
            def leave(event, ctx):
                sys.exit(3)

            @api.tool
            async def leave_too():
                """Leave."""
                raise SystemExit("gone")

            @api.command("leave")
            async def command(args, ctx):
                exit()
        ''',
    )
    lab.server.add(answer(call("leave_too", {})), answer("Still here."))
    async with lab.client() as client:
        events = await client.prompt_and_collect("Go")
        assert (await client.request("prompt", message="/leave"))["success"]
        await client.ask("get_state")
    assert errors(events) == 2 * [("turn_start", "tried to exit the program (code 3)")]
    (end,) = only(events, "tool_execution_end")
    assert (text_of(end["result"]), end["isError"]) == (
        "tried to exit the program (code gone)",
        True,
    )
    assert ("command", "tried to exit the program (code None)") in errors(told(lab))


async def test_a_forked_copy_does_not_go_on_as_the_agent(lab: Lab) -> None:
    lay(
        lab,
        """
        import os

        def extension(api):
            @api.on("turn_start")
            def fork(event, ctx):
                pid = os.fork()
                if pid:
                    os.waitpid(pid, 0)
                    ctx.ui.notify("forked")
        """,
    )
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.prompt_and_collect("Hi")
        await client.ask("get_state")
    assert types(told(lab)).count("agent_settled") == 1
    assert notes(lab) == ["forked"]
    assert len(lab.server.requests) == 1


async def test_an_extension_that_exits_while_loading_is_a_load_error(lab: Lab) -> None:
    lay(lab, "import sys\nsys.exit(0)\n", "one.py")
    lay(lab, "import os\nif os.fork() == 0:\n    raise SystemExit\n", "two.py")
    async with lab.client() as client:
        await client.ask("get_state")
    failed = [text for event, text in errors(told(lab)) if event == "load"]
    assert len(failed) == 2
    assert failed[0].startswith("tried to exit the program")
    assert "factory function" in failed[1]


async def test_old_api_and_ctx_say_that_they_are_stale(lab: Lab) -> None:
    lay(
        lab,
        """
        import sys
        kept = sys.__dict__.setdefault("kept_for_test", [])

        def extension(api):
            @api.command("keep")
            async def keep(args, ctx):
                kept.append((api, ctx))

            @api.command("use")
            async def use(args, ctx):
                for act in (lambda: kept[0][0].append_entry("x"), lambda: kept[0][1].cwd):
                    try:
                        act()
                    except Exception as error:
                        ctx.ui.notify(str(error))
        """,
    )
    async with lab.client() as client:
        await client.ask("prompt", message="/keep")
        await client.ask("new_session")
        await client.ask("prompt", message="/use")
    assert len(notes(lab)) == 2
    assert all("stale" in text for text in notes(lab))


async def test_acting_while_loading_is_refused(lab: Lab) -> None:
    lay(lab, 'def extension(api):\n    api.append_entry("early")\n')
    async with lab.client() as client:
        await client.ask("get_state")
    ((event, text),) = errors(told(lab))
    assert event == "load"
    assert "Action methods cannot be called during extension loading" in text


async def test_many_frames_of_a_busy_extension_stay_whole(lab: Lab) -> None:
    lay(
        lab,
        """
        import threading

        def extension(api):
            @api.on("turn_start", thread=True)
            def talk(event, ctx):
                for number in range(200):
                    ctx.ui.notify(f"{number} " + "x" * 500)
        """,
    )
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.prompt_and_collect("Hi")
        await asyncio.sleep(0)
    assert [int(text.split()[0]) for text in notes(lab)] == list(range(200))
    assert all(loads(line) for line in lab.lines)
