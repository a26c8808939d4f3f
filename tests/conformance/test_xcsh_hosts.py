"""xcsh: tools and dialogs of the host, and a client like the one that is described."""

import json
import queue
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from ludolf.client import Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, tell
from tests.process.harness import RPC, WAIT_SECONDS, only, text_of, types
from tests.process.script import answer, call

ECHO = {
    **{"name": "echo_host", "label": "Echo Host", "description": "Echo a value of the host"},
    "parameters": {
        **{"type": "object", "properties": {"message": {"type": "string"}}},
        **{"required": ["message"], "additionalProperties": False},
    },
}
OTHER = {**ECHO, "name": "other_host"}


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


# ---------------------------------------------------------------- tools of the host


async def _tools(stage: Stage) -> None:
    calls = [call("echo_host", {"message": str(n)}, f"c{n}") for n in (1, 2)]
    stage.server.add(answer(*calls), answer("Done."), answer(call("echo_host", {"message": "3"})))
    stage.server.add(answer("Next."))
    async with stage.client() as client:
        await client.request("set_host_tools", id="set", tools=[ECHO])
        await client.request("prompt", id="run", message="Go")
        first = await client.wait_for("host_tool_call")
        second = await client.wait_for("host_tool_call")
        await client.send("host_tool_update", id=first["id"], partialResult=_text("working"))
        await client.send("host_tool_result", id=first["id"], result=_text("done"))
        await client.send("host_tool_result", id=second["id"], result=_text("no"), isError=True)
        await client.wait_for("agent_end")
        await client.request("prompt", id="aborted", message="Again")
        await client.wait_for("host_tool_call")
        await client.request("abort")
        await client.wait_for("agent_end")
        await client.request("set_host_tools", id="other", tools=[OTHER])
        await client.request("prompt", id="last", message="And now")
        await client.wait_for("agent_end")


@pytest.fixture(scope="module")
def tools(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _tools)


@proves("RPC0-command-09", "RPC0-set-tools-02", "RPC0-set-tools-03")
def test_the_tools_of_the_host_are_taken_over_by_name(tools: Story) -> None:
    assert tools.data("set") == {"toolNames": ["echo_host"]}
    offered = {one["name"]: one for one in tools.requests[0].body["tools"]}
    assert offered["echo_host"]["description"] == ECHO["description"]
    assert offered["echo_host"]["input_schema"]["required"] == ["message"]


@proves("RPC0-set-tools-01", "RPC0-set-tools-04", "RPC0-set-tools-05")
def test_a_new_set_counts_for_the_next_call_of_the_model(tools: Story) -> None:
    assert tools.data("other") == {"toolNames": ["other_host"]}
    offered = [{one["name"] for one in asked.body["tools"]} for asked in tools.requests]
    assert ["echo_host" in names for names in offered] == [True, True, True, False]
    assert ["other_host" in names for names in offered] == [False, False, False, True]


@proves("RPC0-host-tool-01", "RPC0-host-tool-02")
def test_a_call_goes_to_the_host(tools: Story) -> None:
    first, second = only(tools.run("run"), "host_tool_call")
    assert first.keys() == {"type", "id", "toolCallId", "toolName", "arguments"}
    assert [first[key] for key in ("toolCallId", "toolName")] == ["c1", "echo_host"]
    assert (first["arguments"], second["arguments"]) == ({"message": "1"}, {"message": "2"})
    names = types(tools.run("run"))
    assert names.index("tool_execution_start c1") < names.index("host_tool_call")


def _end(story: Story, call_id: str) -> tuple[bool, str]:
    ends = only(story.run("run"), "tool_execution_end")
    (end,) = [one for one in ends if one["toolCallId"] == call_id]
    return end["isError"], text_of(end["result"])


@proves("RPC0-host-tool-04", "RPC0-host-tool-05", "RPC0-host-tool-06")
def test_progress_results_and_errors_of_the_host_are_those_of_the_tool(tools: Story) -> None:
    (update,) = only(tools.run("run"), "tool_execution_update")
    assert (update["toolCallId"], text_of(update["partialResult"])) == ("c1", "working")
    assert _end(tools, "c1") == (False, "done")
    assert _end(tools, "c2") == (True, "no")


@proves("RPC0-host-tool-03")
def test_an_aborted_call_is_cancelled_at_the_host(tools: Story) -> None:
    (asked,) = only(tools.run("aborted"), "host_tool_call")
    (cancel,) = only(tools.run("aborted"), "host_tool_cancel")
    assert cancel.keys() == {"type", "id", "targetId"}
    assert (cancel["targetId"], cancel["id"] != asked["id"]) == (asked["id"], True)


# ---------------------------------------------------------------- a client


class _Client:
    """A host in threads: waits for `ready`, finds replies by id, runs its own tools."""

    known = ("agent_start", "message_update", "tool_execution_end", "agent_end")

    def __init__(self, stage: Stage, tools: dict[str, Callable[[Any], str]]) -> None:
        self._tools, self._count = tools, 0
        self._replies: queue.Queue[Record] = queue.Queue()
        self._ready = threading.Event()
        self._ended = threading.Event()
        self.heard: list[Record] = []
        self.cancelled: list[str] = []
        self.child = subprocess.Popen(
            RPC,
            cwd=stage.work,
            env=stage.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        assert self._ready.wait(WAIT_SECONDS)

    def send(self, frame: Record) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(frame) + "\n")
        self.child.stdin.flush()

    def ask(self, command: str, **params: Any) -> Record:
        self._count += 1
        request = f"req_{self._count}"
        self.send({"id": request, "type": command, **params})
        reply = self._replies.get(timeout=WAIT_SECONDS)
        assert reply["id"] == request
        return reply

    def prompt_and_wait(self, text: str) -> None:
        assert self.ask("prompt", message=text)["success"]
        assert self._ended.wait(WAIT_SECONDS)

    def close(self) -> None:
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.close()
        self._thread.join(WAIT_SECONDS)
        self.child.wait(WAIT_SECONDS)
        self.child.stdout.close()

    def _listen(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._dispatch(json.loads(line))

    def _dispatch(self, frame: Record) -> None:
        kind = frame["type"]
        if kind == "ready":
            self._ready.set()
        elif kind == "response":
            self._replies.put(frame)
        elif kind == "host_tool_call":
            self._run(frame)
        elif kind == "host_tool_cancel":
            self.cancelled.append(frame["targetId"])
        elif kind in self.known:
            self.heard.append(frame)
        if kind == "agent_end":
            self._ended.set()

    def _run(self, asked: Record) -> None:
        tool = self._tools.get(asked["toolName"])
        if tool is not None:
            result = _text(tool(asked["arguments"]))
            self.send({"type": "host_tool_result", "id": asked["id"], "result": result})
            return
        threading.Thread(target=self.send, args=({"id": "stop", "type": "abort"},)).start()


@proves("RPC0-client-01", "RPC0-client-02", "RPC0-client-03", "RPC0-client-04")
def test_a_client_correlates_replies_and_answers_calls_of_its_tools(stage: Stage) -> None:
    stage.server.add(answer(call("echo_host", {"message": "hi"})), answer("I heard hi."))
    stage.server.add(answer(call("other_host", {"message": "never"})))
    with ExitStack() as stack:
        client = _Client(stage, {"echo_host": lambda args: f"echo: {args['message']}"})
        stack.callback(client.close)
        assert client.ask("set_host_tools", tools=[ECHO, OTHER])["success"]
        client.prompt_and_wait("Go")
        heard = list(client.heard)
        client._ended.clear()
        client.prompt_and_wait("Go on")
    (end,) = only(heard, "tool_execution_end")
    assert text_of(end["result"]) == "echo: hi"
    assert text_of(heard[-1]["messages"][-1]) == "I heard hi."
    assert {one["type"] for one in heard} == set(_Client.known)
    assert len(client.cancelled) == 1
    assert client.child.returncode == 0


@proves("RPC0-client-05", "RPC0-example-03")
def test_plain_frames_sent_together_are_answered_each_under_its_id(stage: Stage) -> None:
    frames = (
        {"id": "q1", "type": "get_state"},
        {"id": "q2", "type": "set_steering_mode", "mode": "all"},
        {"id": "q3", "type": "set_interrupt_mode", "mode": "wait"},
        {"id": "q4", "type": "set_session_name", "name": "work"},
    )
    told = stage.feed("".join(json.dumps(one) + "\n" for one in frames).encode())
    replies = {one["id"]: one for one in only(told, "response")}
    assert list(replies) == ["q1", "q2", "q3", "q4"]
    assert [one["command"] for one in replies.values()] == [one["type"] for one in frames]
    assert all(one["success"] for one in replies.values())
