"""A conversation through pi-py-sdk. Words: the command to start, the working folder."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

# In the clients' own environment only, not in the one that checks types.
from pi_py_sdk import PiAgent, PiConfig, message_text  # type: ignore[import-not-found]


class Watch:
    """All events so far, and a way to wait for the next one of a kind."""

    def __init__(self, agent: Any) -> None:
        self.seen: list[str] = []
        self._waiting: dict[str, asyncio.Event] = {}
        agent.subscribe(self._take)

    def _take(self, event: Any) -> None:
        self.seen.append(event.type)
        if event.type in self._waiting:
            self._waiting.pop(event.type).set()

    def next(self, kind: str) -> "asyncio.Event":
        return self._waiting.setdefault(kind, asyncio.Event())


async def converse(agent: Any, cwd: Path) -> dict[str, Any]:
    watch = Watch(agent)
    state = await agent.get_state()
    models = [f"{one['provider']}/{one['id']}" for one in await agent.get_available_models()]
    first = await agent.prompt_and_wait("Write hello.txt", timeout=10)
    report = {"state": state, "models": models, "first": [event.type for event in first]}
    report["text"] = message_text(first[-1].messages[-1])
    report["steered"] = await steer(agent, watch, cwd)
    report["aborted"] = await abort(agent, watch)
    report["notices"] = await answer_a_dialog(agent)
    report["calls"] = await call_the_rest(agent, cwd)
    report["end"] = await agent.get_state()
    return report


async def steer(agent: Any, watch: Watch, cwd: Path) -> str:
    started, ended = watch.next("tool_execution_start"), watch.next("agent_end")
    await agent.prompt("Wait for the gate")
    await started.wait()
    await agent.steer("Never mind the rest")
    await asyncio.to_thread((cwd / "gate").write_text, "open\n")
    await ended.wait()
    return str(await agent.get_last_assistant_text())


async def abort(agent: Any, watch: Watch) -> bool:
    started, ended = watch.next("tool_execution_start"), watch.next("agent_end")
    await agent.prompt("Sleep")
    await started.wait()
    await agent.abort()
    await ended.wait()
    return bool((await agent.get_state())["isStreaming"])


async def answer_a_dialog(agent: Any) -> list[str]:
    notices: list[str] = []
    agent.on_ui_request(lambda request: request.method == "confirm")
    agent.observe_ui_requests(lambda request: notices.append(request.message))
    await agent.prompt("/ask")
    return notices


async def call_the_rest(agent: Any, cwd: Path) -> dict[str, Any]:
    calls: dict[str, Any] = {"bash": await agent.bash("echo beside")}
    await agent.follow_up("Later")
    calls["compact"] = await agent.compact("Be brief")
    calls["set_model"] = await agent.set_model("chat", "large")
    calls["cycle_model"] = await agent.cycle_model()
    await agent.set_thinking_level("low")
    calls["cycle_thinking_level"] = await agent.cycle_thinking_level()
    await agent.set_steering_mode("all")
    await agent.set_follow_up_mode("one-at-a-time")
    await agent.set_auto_compaction(False)
    await agent.set_auto_retry(True)
    await agent.abort_retry()
    await agent.abort_bash()
    await agent.set_session_name("tried")
    calls["stats"] = await agent.get_session_stats()
    calls["commands"] = await agent.get_commands()
    calls["roles"] = [message.role for message in await agent.get_messages()]
    calls["export"] = await agent.export_html(str(cwd / "page.html"))
    forks = await agent.get_fork_messages()
    session = (await agent.get_state())["sessionFile"]
    calls["clone"] = await agent.clone()
    calls["fork"] = await agent.fork(forks[0]["entryId"])
    calls["new_session"] = await agent.new_session()
    calls["switch_session"] = await agent.switch_session(session)
    return calls


async def main() -> None:
    command, cwd = sys.argv[1:]
    async with PiAgent(config=PiConfig(bin=command, cwd=cwd)) as agent:
        report = await converse(agent, Path(cwd))
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
