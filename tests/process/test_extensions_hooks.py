"""Every event reaches its handlers, and what they answer counts."""

import json

from ludolf.base import dumps
from ludolf.client import Record
from ludolf.extensions.hooks import HOOKS
from tests.process.extending import asked, errors, example, lay, notes, told
from tests.process.harness import Lab, messages, only, text_of, types
from tests.process.script import answer, bash, call

# Notes every event in a file, by its name and the fields that tell most.
LISTENER = """
from pathlib import Path
EVENTS = {events!r}

def extension(api):
    def note(event, ctx):
        told = [event.type]
        for name in ("reason", "source", "level", "outcome", "kind", "status"):
            if hasattr(event, name):
                told.append(str(getattr(event, name)))
        with open({log!r}, "a") as log:
            log.write(" ".join(told) + "\\n")
    for name in EVENTS:
        api.on(name, note)

    @api.command("ask")
    async def ask(args, ctx):
        await ctx.ui.confirm("Sure?", "", timeout=1)

    @api.command("back")
    async def back(args, ctx):
        users = [e for e in ctx.session.entries() if e.type == "message"]
        await ctx.navigate_tree(users[0].id)
"""
# A part of the program that does not exist yet asks for this one.
UNASKED = {"cache_warming_decision"}


async def test_every_event_is_told_in_its_place(lab: Lab) -> None:
    log = lab.root / "log"
    lay(lab, LISTENER.format(events=list(HOOKS), log=str(log)))
    (lab.work / ".pi" / "extensions").mkdir(parents=True)
    lab.settings(compaction={"enabled": False, "keepRecentTokens": 1})
    lab.server.add(answer("Looking.", bash("echo hi")), answer("Hi."), answer("A summary."))
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
        await client.ask("bash", command="true")
        await client.ask("set_model", provider="chat", modelId="large")
        await client.ask("set_model", provider="claude", modelId="large")
        await client.ask("set_thinking_level", level="high")
        await client.ask("set_session_name", name="A name")
        await client.ask("prompt", message="/ask")
        await client.request("compact")
        await client.request("compact")
        await client.ask("prompt", message="/back")
        entry = (await client.ask("get_fork_messages"))["messages"][0]["entryId"]
        await client.ask("fork", entryId=entry)
        await client.ask("new_session")
        await client.ask("reload")
    lines = log.read_text().splitlines()
    heard = {line.split()[0] for line in lines}
    assert sorted(set(HOOKS) - heard - UNASKED) == []
    assert errors(told(lab)) == []
    assert lines[:3] == ["project_trust", "session_start startup", "resources_discover startup"]
    assert lines[-1] == "session_shutdown quit"
    first = lines[3 : lines.index("agent_settled")]
    assert first[:4] == ["input rpc", "before_agent_start", "agent_start", "turn_start"]
    assert set(first[4:6]) == {"message_start", "message_end"}
    assert first[6:8] == ["context", "context_with_system"]
    assert first[8:11] == [
        *("before_provider_request", "before_provider_headers", "after_provider_response 200"),
    ]
    assert first[-3:] == ["turn_end", "agent_end", "agent_before_settle completed"]
    for reason in ("fork", "new", "reload"):
        assert f"session_shutdown {reason}" in lines
        assert f"session_start {reason}" in lines


# ---------------------------------------------------------------- prompts and answers


async def test_input_may_be_changed_or_dealt_with(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.on("input")
            def hear(event, ctx):
                if event.text == "ping":
                    ctx.ui.notify("pong")
                    return {"action": "handled"}
                return {"action": "transform", "text": event.text + "!"}

            @api.on("input")
            async def again(event, ctx):
                return {"action": "transform", "text": event.text.upper()}
        """,
    )
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.ask("prompt", message="ping")
        await client.prompt_and_collect("hi")
    assert notes(lab) == ["pong"]
    assert [text_of(one) for one in messages(lab.entries)] == ["HI!", "Hello."]


async def test_a_run_can_start_with_a_message_and_a_prompt_of_an_extension(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.on("before_agent_start")
            def start(event, ctx):
                message = {"custom_type": "fact", "content": "It rains.", "display": True}
                return {"message": message, "system_prompt": "You are a poet."}
        """,
    )
    lab.server.add(answer("Drops."))
    async with lab.client() as client:
        await client.prompt_and_collect("Write")
    body = lab.server.requests[0].body
    assert "You are a poet." in str(body["system"])
    assert "It rains." in str(body["messages"])
    (entry,) = [one for one in lab.entries if one["type"] == "custom_message"]
    assert (entry["customType"], entry["content"]) == ("fact", "It rains.")


async def test_context_messages_payload_and_headers_can_be_changed_for_a_request(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.on("context")
            def shorten(event, ctx):
                return {"messages": event.messages[-1:]}

            @api.on("context_with_system")
            def whole(event, ctx):
                return {"system_prompt": "Be brief."}

            @api.on("before_provider_request")
            def request(event, ctx):
                return {**event.payload, "temperature": 0.5}

            @api.on("before_provider_headers")
            def headers(event, ctx):
                return {"headers": {"X-Extra": "yes", "x-api-key": None}}
        """,
    )
    lab.server.add(answer("One."), answer("Two."))
    async with lab.client() as client:
        await client.prompt_and_collect("first")
        await client.prompt_and_collect("second")
    asked_last = lab.server.requests[-1]
    assert [text_of(one) for one in asked_last.body["messages"]] == ["second"]
    assert "Be brief." in str(asked_last.body["system"])
    assert asked_last.body["temperature"] == 0.5
    assert asked_last.headers["x-extra"] == "yes"
    assert "x-api-key" not in asked_last.headers
    assert len(messages(lab.entries)) == 4


async def test_a_message_can_be_replaced_before_it_is_stored(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.on("message_end")
            def clean(event, ctx):
                if event.message.role == "assistant":
                    return {"message": event.message.replace(content=[
                        {"type": "text", "text": "Replaced."}])}
                return {"message": {"role": "assistant", "content": []}}
        """,
    )
    lab.server.add(answer("Rude words."))
    async with lab.client() as client:
        await client.prompt_and_collect("Hi")
    assert [text_of(one) for one in messages(lab.entries)] == ["Hi", "Replaced."]
    ((event, text),) = errors(told(lab))
    assert event == "message_end"
    assert text


async def test_an_extension_can_ask_for_one_more_turn_and_store_entries(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            asked = []

            @api.on("agent_before_settle")
            def more(event, ctx):
                if asked:
                    return None
                asked.append(True)
                note = {"type": "custom_message", "custom_type": "n", "content": "Go on.",
                        "display": True}
                return {"entries": [note], "continue": True}

            @api.on("turn_end")
            def keep(event, ctx):
                return {"entries": [{"type": "custom", "custom_type": "turn",
                                     "data": {"index": event.turn_index}}]}
        """,
    )
    lab.server.add(answer("One."), answer("Two."))
    async with lab.client() as client:
        events = await client.prompt_and_collect("Hi")
    assert types(events).count("turn_end") == 2
    assert "Go on." in str(lab.server.requests[1].body["messages"])
    stored = [one for one in lab.entries if one["type"] == "custom"]
    assert [one["customType"] for one in stored] == ["turn", "turn"]
    assert len(only(events, "entry_appended")) == 3


# ---------------------------------------------------------------- tools


GATE = """
def extension(api):
    @api.on("tool_call")
    def change(event, ctx):
        command = event.input.get("command", "")
        if "forbidden" in command:
            return {"block": True, "reason": "Not here"}
        return {"input": {**event.input, "command": command.replace("one", "two")}}

    @api.on("tool_call")
    def see(event, ctx):
        ctx.ui.notify(event.input.get("command", ""))

    @api.on("tool_result")
    def hide(event, ctx):
        return {"content": [{"type": "text", "text": event.content[0].text.upper()}],
                "details": {"seen": True}, "is_error": False}
"""


async def test_calls_of_tools_can_be_changed_and_blocked_and_results_rewritten(lab: Lab) -> None:
    lay(lab, GATE)
    lab.server.add(answer(bash("echo one", "a"), bash("forbidden", "b")), answer("Done."))
    async with lab.client() as client:
        events = await client.prompt_and_collect("Go")
    assert notes(lab) == ["echo two"]
    ends = {one["toolCallId"]: one for one in only(events, "tool_execution_end")}
    assert text_of(ends["a"]["result"]) == "TWO\n"
    assert ends["a"]["result"]["details"] == {"seen": True}
    assert "NOT HERE" in text_of(ends["b"]["result"]).upper()


async def test_a_block_may_end_the_run(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.on("tool_call")
            def gate(event, ctx):
                return {"block": True, "reason": "Enough.", "terminate": True}
        """,
    )
    lab.server.add(answer(bash("touch ran", "a"), bash("touch ran", "b")), answer("Not asked."))
    async with lab.client() as client:
        events = await client.prompt_and_collect("Go")
    ends = only(events, "tool_execution_end")
    assert [text_of(end["result"]) for end in ends] == ["Enough.", "Enough."]
    assert len(lab.server.requests) == 1
    assert list(lab.work.iterdir()) == []


async def test_a_tool_streams_is_validated_and_can_end_the_run(lab: Lab) -> None:
    lay(
        lab,
        '''
        from typing import Annotated
        from ludolf.ext import ToolError, ToolResult

        def extension(api):
            @api.tool
            def add(a: Annotated[int, "the first"], b: int = 2, *, update):
                """Add two numbers."""
                update("adding")
                return ToolResult(str(a + b), details={"sum": a + b})

            @api.tool(execution="sequential")
            async def fail() -> str:
                """Fail."""
                raise ToolError("it failed", details={"code": 7})

            @api.tool
            async def finish():
                """End."""
                return ToolResult("bye", terminate=True)
        ''',
    )
    lab.server.add(
        answer(call("add", {"a": 1}, "a"), call("add", {"a": "no"}, "b"), call("fail", {}, "c")),
        answer(call("finish", {}, "d")),
    )
    async with lab.client() as client:
        events = await client.prompt_and_collect("Go")
    ends = {one["toolCallId"]: one for one in only(events, "tool_execution_end")}
    assert text_of(ends["a"]["result"]) == "3"
    assert ends["a"]["result"]["details"] == {"sum": 3}
    assert ends["b"]["isError"]
    assert (text_of(ends["c"]["result"]), ends["c"]["isError"]) == ("it failed", True)
    assert "adding" in [
        text_of(one["partialResult"]) for one in only(events, "tool_execution_update")
    ]
    assert len(lab.server.requests) == 2
    schema = next(one for one in lab.server.requests[0].body["tools"] if one["name"] == "add")
    assert schema["description"] == "Add two numbers."
    assert schema["input_schema"]["properties"]["a"] == {
        **{"type": "integer", "description": "the first"},
    }
    assert schema["input_schema"]["required"] == ["a"]


async def test_a_changed_tool_result_keeps_the_wish_to_end_the_run(lab: Lab) -> None:
    lay(
        lab,
        '''
        from ludolf.ext import ToolResult

        def extension(api):
            @api.tool
            async def finish():
                """End."""
                return ToolResult("bye", terminate=True)

            @api.on("tool_result")
            def change(event, ctx):
                return {"is_error": True}
        ''',
    )
    lab.server.add(answer(call("finish", {}, "d")))
    async with lab.client() as client:
        events = await client.prompt_and_collect("Go")
    (end,) = only(events, "tool_execution_end")
    assert (text_of(end["result"]), end["isError"]) == ("bye", True)
    assert len(lab.server.requests) == 1


async def test_a_tool_of_an_extension_takes_the_place_of_a_built_in_one(lab: Lab) -> None:
    lay(
        lab,
        '''
        def extension(api):
            @api.tool(name="read")
            async def read(path: str):
                """Read."""
                return f"instead of {path}"
        ''',
    )
    lab.server.add(answer(call("read", {"path": "a.txt"})), answer("Done."))
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
    names = [tool["name"] for tool in lab.server.requests[0].body["tools"]]
    assert names.count("read") == 1
    assert "instead of a.txt" in [text_of(m) for m in messages(lab.entries)]


async def test_tools_can_be_registered_later_and_switched(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.command("more")
            async def more(args, ctx):
                @api.tool
                async def late(): "A late one."
                ctx.ui.notify(",".join(ctx.active_tools))
                api.set_active_tools(["late", "nobody"])
                ctx.ui.notify(",".join(ctx.active_tools))
        """,
    )
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.ask("prompt", message="/more")
        await client.prompt_and_collect("Hi")
    assert notes(lab) == ["read,bash,edit,write,late", "late"]
    assert [tool["name"] for tool in lab.server.requests[0].body["tools"]] == ["late"]


async def test_user_bash_can_be_answered_run_elsewhere_or_left(lab: Lab) -> None:
    lay(
        lab,
        """
        class Elsewhere:
            async def exec(self, command, cwd, on_data):
                on_data(b"far ")
                on_data(b"away\\n")
                return 4

        def extension(api):
            @api.on("user_bash")
            def run(event, ctx):
                if event.command == "fake":
                    return {"result": {"output": "faked", "exit_code": 7}}
                if event.command == "far":
                    return {"operations": Elsewhere()}
                if event.command == "wrong":
                    return {"outcome": 3}
        """,
    )
    async with lab.client() as client:
        fake = await client.ask("bash", command="fake")
        far = await client.ask("bash", command="far")
        local = await client.ask("bash", command="echo here")
        wrong = await client.request("bash", command="wrong")
    assert (fake["output"], fake["exitCode"]) == ("faked", 7)
    assert (far["output"], far["exitCode"]) == ("far away\n", 4)
    assert (local["output"], local["exitCode"]) == ("here\n", 0)
    assert not wrong["success"]
    assert "result" in wrong["error"]


# ---------------------------------------------------------------- sessions


VETO = """
def extension(api):
    @api.on("session_before_switch")
    def switch(event, ctx):
        return {"cancel": True}

    @api.on("session_before_fork")
    def fork(event, ctx):
        return {"cancel": True}

    @api.on("session_before_compact")
    def compact(event, ctx):
        return {"cancel": True}

    @api.on("session_before_tree")
    def tree(event, ctx):
        return {"cancel": True}

    @api.command("back")
    async def back(args, ctx):
        users = [e for e in ctx.session.entries() if e.type == "message"]
        ctx.ui.notify(str(await ctx.navigate_tree(users[0].id)))
"""


async def test_changes_of_session_can_be_vetoed(lab: Lab) -> None:
    lay(lab, VETO)
    lab.settings(compaction={"keepRecentTokens": 1})
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        before = (await client.ask("get_state"))["sessionId"]
        await client.prompt_and_collect("Hi")
        entry = (await client.ask("get_fork_messages"))["messages"][0]["entryId"]
        assert (await client.ask("new_session"))["cancelled"]
        assert (await client.ask("switch_session", sessionPath=str(lab.sessions[0])))["cancelled"]
        assert (await client.ask("fork", entryId=entry))["cancelled"]
        assert (await client.ask("clone"))["cancelled"]
        assert not (await client.request("compact"))["success"]
        await client.ask("prompt", message="/back")
        assert (await client.ask("get_state"))["sessionId"] == before
    assert notes(lab) == ["{'cancelled': True}"]
    assert len(lab.sessions) == 1


async def test_summaries_can_be_made_by_an_extension(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.on("session_before_compact")
            def compact(event, ctx):
                plan = event.preparation
                return {"compaction": {"summary": "In short.",
                    "first_kept_entry_id": plan.first_kept_entry_id,
                    "tokens_before": plan.tokens_before, "details": {"by": "me"}}}

            @api.on("session_before_tree")
            def tree(event, ctx):
                return {"summary": {"summary": "What was left."}, "label": "back here"}

            @api.on("session_tree")
            def moved(event, ctx):
                ctx.ui.notify(f"{event.from_extension} {event.summary_entry.summary}")

            @api.command("back")
            async def back(args, ctx):
                users = [e for e in ctx.session.entries() if e.type == "message"]
                await ctx.navigate_tree(users[0].id, summarize=True)
        """,
    )
    lab.settings(compaction={"keepRecentTokens": 1})
    lab.server.add(answer("One."), answer("Two."))
    async with lab.client() as client:
        await client.prompt_and_collect("first")
        await client.prompt_and_collect("second")
        data = await client.ask("compact")
        await client.ask("prompt", message="/back")
    assert data["summary"] == "In short."
    assert notes(lab) == ["True What was left."]
    kinds = {one["type"]: one for one in lab.entries}
    assert kinds["compaction"]["details"] == {"by": "me"}
    assert kinds["compaction"]["fromHook"]
    assert kinds["branch_summary"]["summary"] == "What was left."
    assert kinds["label"]["label"] == "back here"
    assert len(lab.server.requests) == 2


async def test_extensions_bring_skills_and_templates(lab: Lab) -> None:
    path = lay(
        lab,
        """
        def extension(api):
            @api.on("resources_discover")
            def discover(event, ctx):
                return {"prompt_paths": ["more/prompts"], "skill_paths": ["more/skills"]}
        """,
    )
    for place, text in (
        ("prompts/fix.md", "---\ndescription: Fix\n---\nFix $1."),
        ("skills/sweep/SKILL.md", "---\nname: sweep\ndescription: Sweep\n---\nSweep."),
    ):
        target = path.parent / "more" / place
        target.parent.mkdir(parents=True)
        target.write_text(text)
    async with lab.client() as client:
        commands = (await client.ask("get_commands"))["commands"]
    assert {one["name"] for one in commands} >= {"fix", "skill:sweep"}


# ---------------------------------------------------------------- acting


async def test_what_extensions_know_and_do(lab: Lab) -> None:
    lay(
        lab,
        """
        import json

        def extension(api):
            @api.events.on("news")
            async def listen(data):
                api.append_entry("heard", data)

            @api.command("facts", description="tell", completions=lambda prefix: [prefix + "!"])
            async def facts(args, ctx):
                done = await ctx.exec("sh", ["-c", "echo out; echo err >&2; exit 3"])
                ctx.ui.notify(json.dumps({
                    "args": args, "mode": ctx.mode, "ui": ctx.has_ui, "cwd": str(ctx.cwd),
                    "model": ctx.model.key, "idle": ctx.is_idle,
                    "pending": ctx.has_pending_messages,
                    "name": ctx.session.name, "signal": ctx.signal is None,
                    "exec": [done.stdout, done.stderr, done.code, done.killed]}))
                api.set_session_name("named")
                api.set_label(ctx.session.leaf_id, "here")
                api.events.emit("news", {"n": 1})
                answer = await ctx.models.complete("And?", system="Be kind.")
                ctx.ui.notify(answer.content[0].text)
                ctx.send_message("note", "by the way", deliver_as="nextTurn")
                ctx.send_user_message("Said by an extension")
        """,
    )
    lab.server.add(answer("Of course."), answer("Hello."))
    async with lab.client() as client:
        await client.ask("prompt", message="/facts a b")
        await client.wait_for("agent_settled")
        state = await client.ask("get_state")
    first, second = notes(lab)
    assert json.loads(first) == {
        **{"args": "a b", "mode": "rpc", "ui": True, "cwd": str(lab.work), "idle": True},
        **{"model": "claude/large", "pending": False, "name": None, "signal": True},
        "exec": ["out\n", "err\n", 3, False],
    }
    assert second == "Of course."
    assert state["sessionName"] == "named"
    assert "Be kind." in str(lab.server.requests[0].body["system"])
    last = str(lab.server.requests[1].body["messages"])
    assert "Said by an extension" in last
    assert "by the way" in last
    kinds = {one["type"] for one in lab.entries}
    assert {"custom", "custom_message", "label", "session_info"} <= kinds


def _custom(records: list[Record]) -> list[str]:
    ends = [one["message"] for one in only(records, "message_end")]
    return [one["content"] for one in ends if one["role"] == "custom"]


async def test_messages_of_extensions_wait_for_their_moment(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.on("turn_start")
            def say(event, ctx):
                if event.turn_index == 0:
                    api.send_message("m", "steered", display=True)
                    api.send_message("m", "at the end", display=True, trigger_turn=False)
                    api.send_message("m", "followed", display=True, deliver_as="followUp")
        """,
    )
    lab.server.add(answer("One."), answer("Two."), answer("Three."))
    async with lab.client() as client:
        records = await client.prompt_and_collect("Hi")
    assert _custom(records) == ["steered", "at the end", "followed"]


async def test_hooks_without_handlers_leave_a_run_as_it_is(lab: Lab) -> None:
    """The same conversation, with an extension that registers nothing but a command."""
    lab.server.add(answer("Hello.", size=100), answer("Hello.", size=100))
    async with lab.client() as client:
        plain = await client.prompt_and_collect("Hi")
    async with lab.client("-e", example("rpc_demo")) as client:
        extended = await client.prompt_and_collect("Hi")
    assert types(plain) == types(extended)
    assert asked(told(lab)) == []
    assert dumps(plain[0]) == dumps(extended[0])


async def test_models_are_listed_while_loading_and_tools_say_where_they_come_from(lab: Lab) -> None:
    path = lay(
        lab,
        """
        def extension(api):
            early = api.models.find("claude", "large").id

            @api.tool(prompt_guidelines=["Be kind."])
            async def mine():
                return early

            @api.command("tools")
            async def tools(args, ctx):
                for tool in api.all_tools:
                    if tool.name in ("read", "mine"):
                        source = tool.source_info
                        ctx.ui.notify(f"{early} {source.source} {source.path}")
        """,
    )
    async with lab.client() as client:
        await client.ask("prompt", message="/tools")
    assert notes(lab) == ["large builtin <builtin:read>", f"large auto {path}"]


async def test_a_provider_without_models_changes_the_address_of_known_ones(lab: Lab) -> None:
    lay(
        lab,
        f"""
        def extension(api):
            api.provider("claude", base_url="{lab.server.url}/proxy", headers={{"x-mine": "1"}})
        """,
    )
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.prompt_and_collect("Hi")
    (request,) = lab.server.requests
    assert request.path.startswith("/proxy/")
    assert request.headers["x-mine"] == "1"
    assert request.headers["x-api-key"] == "key-of-the-lab"
