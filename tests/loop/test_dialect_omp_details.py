"""What oh-my-pi's hosts find in replies and messages beyond pi's: counts, causes, sizes, marks."""

from ludolf.base import loads
from tests.process.extending import is_dialog, lay
from tests.process.harness import Bell, Lab, only, text_of, types
from tests.process.script import Block, Failure, Gate, answer, bash, call, say

OMP = ("--rpc-dialect", "omp", "--no-session")


async def test_a_message_of_a_cut_command_says_how_much_is_missing(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        reply = await client.ask("bash", command="seq 1 3000")
        await client.ask("bash", command="echo short")
        messages = (await client.ask("get_messages"))["messages"]
    cut = messages[0]["meta"]["truncation"]
    assert cut["elidedLines"] == reply["elidedLines"]
    assert cut["tailRange"] == {"start": reply["elidedLines"] + 1, "end": reply["totalLines"]}
    assert "meta" not in messages[1]


async def test_a_cancelled_command_says_so_in_its_output(lab: Lab) -> None:
    bell = Bell(lab.work / "bell")
    async with lab.client(*OMP) as client:
        await client.send("bash", id="b", command="echo >bell; sleep 20")
        assert bell.rings()
        await client.ask("abort_bash")
        reply = await client.reply_to("b")
        message = (await client.ask("get_messages"))["messages"][0]
    assert reply["data"]["cancelled"] is True
    assert reply["data"]["output"] == message["output"] == "[Command cancelled]\n"


async def test_an_aborted_tool_has_the_word_for_it_as_its_result(lab: Lab) -> None:
    bell = Bell(lab.work / "bell")
    lab.server.add(answer(bash("echo >bell; sleep 20")))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        assert bell.rings()
        await client.ask("abort")
        told = await client.collect("agent_end")
    records = [loads(line) for line in lab.lines]
    (end,) = only(records, "tool_execution_end")
    assert text_of(end["result"]) == "[Command cancelled]\n"
    assert told[-1]["messages"][-1]["errorMessage"] == "Interrupted by user"


async def test_the_end_of_a_retry_that_the_host_stops_comes_behind_its_reply(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 60_000})
    lab.server.add(Failure(status=529))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        await client.wait_for("auto_retry_start")
        await client.ask("abort_retry")
        end = await client.wait_for("auto_retry_end")
        await client.wait_for("agent_end")
    told = types(map(loads, lab.lines))
    order = [kind for kind in told if kind in ("response abort_retry", "auto_retry_end")]
    assert order == ["response abort_retry", "auto_retry_end"]
    assert (end["success"], end["finalError"]) == (False, "Retry cancelled")


async def test_retries_end_with_the_failures_before_them(lab: Lab) -> None:
    lab.server.add(Failure(status=529), answer("Now it works."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        end = await client.wait_for("auto_retry_end")
    (failed,) = end["retryErrors"]
    assert end["success"] is True
    assert failed["attempt"] == 1
    assert "529" in failed["errorMessage"]


async def test_a_failed_prompt_says_whether_another_try_may_help(lab: Lab) -> None:
    lab.settings(retry={"enabled": False})
    lab.server.add(Failure(status=529), Failure(status=400))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        busy = await client.wait_for("prompt_result")
        await client.ask("prompt", message="Go")
        wrong = await client.wait_for("prompt_result")
    assert (busy["error"]["httpStatus"], busy["error"]["retryable"]) == (529, True)
    assert (wrong["error"]["httpStatus"], wrong["error"]["retryable"]) == (400, False)


def test_an_answer_that_ends_with_the_input_was_not_interrupted_by_anyone(lab: Lab) -> None:
    lab.server.add(answer(say("Endless", Gate(), ".")))
    with lab.popen(*OMP) as program:
        assert program.stdin is not None and program.stdout is not None
        program.stdin.write(b'{"type":"prompt","message":"Go"}\n')
        told = [loads(program.stdout.readline())]
        while told[-1]["type"] != "message_update":
            told.append(loads(program.stdout.readline()))
        program.stdin.close()
        told = [loads(line) for line in program.stdout]
    (end,) = only(told, "agent_end")
    assert end["messages"][-1]["stopReason"] == "aborted"
    assert end["messages"][-1]["errorMessage"] == "Request was aborted"


async def test_a_failed_change_of_the_plan_shows_the_plan_as_it_is(lab: Lab) -> None:
    lab.server.add(
        answer(call("todo", {"op": "init", "list": [{"phase": "A", "items": ["one"]}]})),
        answer(call("todo", {"op": "done", "task": "none"}, "call_2")),
        answer("Shall I go on?"),
    )
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
    good, bad = only(told, "tool_execution_end")
    assert "isError" not in good["result"]
    assert bad["isError"] is bad["result"]["isError"] is True
    assert bad["result"]["details"]["phases"] == good["result"]["details"]["phases"]
    assert "none" in text_of(bad["result"])


async def test_the_context_is_as_full_as_the_last_request_was(lab: Lab) -> None:
    lab.settings(compaction={"keepRecentTokens": 10})
    lab.server.add(answer("x" * 400), answer("y" * 400), answer("Summary."), answer("Summary."))
    async with lab.client(*OMP) as client:
        fresh = (await client.ask("get_state"))["contextUsage"]
        for _ in range(2):
            await client.ask("prompt", message="z" * 400)
            await client.wait_for("agent_end")
        used = (await client.ask("get_session_stats"))["contextUsage"]
        compacted = await client.ask("compact")
        after = (await client.ask("get_session_stats"))["contextUsage"]
    assert fresh["tokens"] > 100
    assert used["tokens"] == 100
    assert compacted["firstKeptEntryId"]
    assert after["tokens"] > fresh["tokens"]
    assert after["percent"] == 100 * after["tokens"] / after["contextWindow"]


async def test_models_of_other_servers_of_claudes_api_are_marked(lab: Lab) -> None:
    async with lab.client(*OMP) as client:
        models = (await client.ask("get_available_models"))["models"]
    marked = {item["provider"]: item.get("isOAuth") for item in models}
    assert marked["claude"] is True
    assert marked["chat"] is None


async def test_arguments_are_told_as_the_model_wrote_them(lab: Lab) -> None:
    written = '{"command":  "true"}'
    block = Block(kind="toolcall", pieces=(written,), id="c1", name="bash")
    lab.server.add(answer(block), answer("Done."))
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="Go")
        told = await client.collect("agent_end")
    (end,) = [
        update["assistantMessageEvent"]
        for update in only(told, "message_update")
        if update["assistantMessageEvent"]["type"] == "toolcall_end"
    ]
    assert end["toolCall"]["partialArgs"] == written
    assert told[-1]["messages"][1]["content"][0]["partialArgs"] == written


async def test_a_command_of_an_extension_is_acknowledged_behind_its_first_request(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.command("demo", description="asks")
            async def demo(args, ctx):
                ctx.ui.set_title("hidden")
                ctx.ui.notify("begun", "info")
                await ctx.ui.confirm("Go on?", "Really?")
        """,
    )
    async with lab.client(*OMP) as client:
        await client.send("prompt", id="p", message="/demo")
        ask = (await client.collect(is_dialog("confirm")))[-1]
        reply = await client.reply_to("p")
        await client.send("extension_ui_response", id=ask["id"], confirmed=True)
        result = await client.wait_for("prompt_result")
    told = [loads(line) for line in lab.lines]
    kinds = [one.get("method", one["type"]) for one in told[2:]]
    assert kinds == ["notify", "confirm", "response", "prompt_result"]
    assert "data" not in reply
    assert (result["id"], result["agentInvoked"]) == ("p", False)


async def test_a_command_that_is_over_at_once_has_its_result_behind_the_reply(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.command("quick", description="does nothing")
            async def quick(args, ctx):
                pass
        """,
    )
    async with lab.client(*OMP) as client:
        await client.ask("prompt", message="/quick")
        await client.wait_for("prompt_result")
    assert types(map(loads, lab.lines))[2:] == ["response prompt", "prompt_result"]
