"""A conversation through pi-agent-python-sdk. Words: the command to start, the working folder."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

# In the clients' own environment only, not in the one that checks types.
from pi_agent import AsyncPiClient, PiRunError  # type: ignore[import-not-found]


async def converse(pi: Any, cwd: Path) -> dict[str, Any]:
    report: dict[str, Any] = {"version": pi.pi_version, "state": await pi.get_state()}
    models = await pi.get_available_models()
    report["models"] = [f"{model['provider']}/{model['id']}" for model in models]
    async with pi.stream("Write hello.txt", timeout=10) as stream:
        report["first"] = [event.type async for event in stream]
        result = await stream.result()
    report["text"] = result.text
    report["usage"] = [result.usage.input_tokens, result.usage.output_tokens]
    report["steered"] = await steer(pi, cwd)
    report["aborted"] = await abort(pi)
    await pi.prompt("/ask")
    report["calls"] = await call_the_rest(pi, cwd)
    report["end"] = await pi.get_state()
    return report


async def steer(pi: Any, cwd: Path) -> str:
    async with pi.stream("Wait for the gate", timeout=10) as stream:
        async for event in stream:
            if event.type == "tool_execution_start":
                await pi.steer("Never mind the rest")
                await asyncio.to_thread((cwd / "gate").write_text, "open\n")
        return str((await stream.result()).text)


async def abort(pi: Any) -> str:
    try:
        async with pi.stream("Sleep", timeout=10) as stream:
            async for event in stream:
                if event.type == "tool_execution_start":
                    await pi.abort()
            await stream.result()
    except PiRunError as error:
        return str(error.result.stop_reason)
    return "not aborted"


async def call_the_rest(pi: Any, cwd: Path) -> dict[str, Any]:
    calls: dict[str, Any] = {"bash": await pi.bash("echo beside")}
    await pi.follow_up("Later")
    calls["compact"] = await pi.compact(custom_instructions="Be brief")
    calls["set_model"] = await pi.set_model("chat", "large")
    calls["cycle_model"] = await pi.cycle_model()
    calls["levels"] = await pi.get_available_thinking_levels()
    await pi.set_thinking_level("low")
    calls["cycle_thinking_level"] = await pi.cycle_thinking_level()
    await pi.set_steering_mode("all")
    await pi.set_follow_up_mode("one-at-a-time")
    await pi.set_auto_compaction(False)
    await pi.set_auto_retry(True)
    await pi.abort_retry()
    await pi.abort_bash()
    calls["queue"] = await pi.clear_queue()
    await pi.set_session_name("tried")
    calls["stats"] = await pi.get_session_stats()
    calls["commands"] = await pi.get_commands()
    calls["roles"] = [message["role"] for message in await pi.get_messages()]
    calls["entries"] = await pi.get_entries()
    calls["tree"] = await pi.get_tree()
    calls["export"] = await pi.export_html(output_path=str(cwd / "page.html"))
    return {**calls, **await change_sessions(pi)}


async def change_sessions(pi: Any) -> dict[str, Any]:
    forks = await pi.get_fork_messages()
    session = (await pi.get_state())["sessionFile"]
    calls = {"clone": await pi.clone(), "fork": await pi.fork(forks[0]["entryId"])}
    calls["new_session"] = await pi.new_session()
    calls["switch_session"] = await pi.switch_session(session)
    return calls


async def main() -> None:
    command, cwd = sys.argv[1:]
    notices: list[str] = []

    async def handle(request: dict[str, Any]) -> bool | None:
        notices.append(request["message"])
        return True if request["method"] == "confirm" else None

    async with AsyncPiClient(executable=command, cwd=cwd, ui_handler=handle) as pi:
        report = await converse(pi, Path(cwd))
    sys.stdout.write(json.dumps({**report, "notices": notices}) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
