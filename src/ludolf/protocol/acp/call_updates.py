"""Frames about tool calls: from the first piece of a call in an answer to its result."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET

from ludolf.agent.events import ToolEnd, ToolStart, ToolUpdate
from ludolf.agent.tool import ToolOutput
from ludolf.ai.messages import ToolCall, ToolResultMessage, text_of
from ludolf.protocol.acp.call_sources import CallSources
from ludolf.protocol.acp.command_output import (
    SentOutput,
    ended_terminal,
    exit_status,
    terminal_content,
    terminal_of,
)
from ludolf.protocol.acp.structs import CallStatus, ClientCapabilities
from ludolf.protocol.acp.tool_view import (
    Blocks,
    absolute_path,
    kind_of_tool,
    output_content,
    raw_details,
    raw_value,
    result_content,
    text_content,
    tool_title,
    view_call,
)

PROGRESS_SECONDS = 0.5
PROGRESS_CHARACTERS = 8 * 1024
AGENT_KEY = "ludolf/agent"
Encode = Callable[[dict[str, Any]], bytes]


class _Call:
    """A call that the client knows and that has not ended."""

    def __init__(self, shown_id: str, name: str, agent: str) -> None:
        self.shown_id = shown_id
        self.name = name
        self.agent = agent
        self.args: Mapping[str, Any] = {}
        self.status: CallStatus = "pending"
        self.is_started = False
        self.has_terminal = False
        # A terminal of the client, in which it shows the command.
        self.client_terminal = ""
        self.has_run = False
        self.old_text: str | None = None
        self.output = SentOutput()
        self.waiting: str | None = None
        self.due = 0.0


class CallUpdates:
    """The calls of one session; ids are unique in it, also if a provider repeats its ids."""

    def __init__(
        self, encode: Encode, cwd: Path, client: ClientCapabilities, sources: CallSources
    ) -> None:
        self._encode = encode
        self._cwd = cwd
        self._client = client
        self._sources = sources
        self._used: set[str] = set()
        self._open: dict[tuple[str, str], list[_Call]] = {}
        self._streaming: dict[int, _Call] = {}

    # ------------------------------------------------------------ ids

    def new_id(self, call_id: str) -> str:
        """Return an id that no other call of the session has."""
        base = shown = call_id or "call"
        number = 1
        while shown in self._used:
            number += 1
            shown = f"{base}-{number}"
        self._used.add(shown)
        return shown

    def shown_id(self, call_id: str, *, of_agent: bool = False) -> str:
        """Return the id under which the client knows an open call; `call_id` if it is unknown."""
        for (agent, key), calls in reversed(self._open.items()):
            if key == call_id and bool(agent) == of_agent and calls:
                return calls[0].shown_id
        return call_id

    # ------------------------------------------------------------ calls in an answer

    def answer_begins(self) -> None:
        self._streaming.clear()

    def begin(self, index: int, call_id: str, name: str) -> Iterator[bytes]:
        """Announce a call whose arguments are still arriving."""
        if not name:
            return  # some servers send the name later
        call = _Call(self.new_id(call_id), name, "")
        self._streaming[index] = call
        facts = self._sources.facts(name)
        yield self._announce(call, tool_title(name, facts), kind=kind_of_tool(name, facts))

    def complete(self, index: int, block: ToolCall) -> Iterator[bytes]:
        """Describe a call whose arguments have arrived."""
        call = self._streaming.get(index)
        args = block.arguments if isinstance(block.arguments, dict) else {}
        if call is None:
            call = self._streaming[index] = _Call(self.new_id(block.id), block.name, "")
            yield self._announce_whole(call, args)
        else:
            call.name = block.name
            yield self._update(call, self._described(call, args))
        self._open.setdefault(("", block.id), []).append(call)

    def answer_failed(self) -> Iterator[bytes]:
        """End the calls of an answer that was cut off; the agent does not run them."""
        for call in tuple(self._streaming.values()):
            if not call.is_started:
                yield from self._fail(call)
        self._streaming.clear()

    # ------------------------------------------------------------ calls that run

    def start(self, event: ToolStart, agent: str = "") -> Iterator[bytes]:
        call = self._find(event.tool_call_id, agent, is_started=False)
        if call is None:
            call = _Call(self.new_id(event.tool_call_id), event.tool_name, agent)
            self._open.setdefault((agent, event.tool_call_id), []).append(call)
            yield self._announce_whole(call, event.args)
        call.is_started = True
        path = event.args.get("path")
        place = absolute_path(path, self._cwd) if isinstance(path, str) else None
        if event.tool_name == "write" and place is not None:
            call.old_text = self._sources.read(place)
        if not self._sources.asks(event):
            yield self._run(call)

    def running(self, call_id: str, *, of_agent: bool = False) -> Iterator[bytes]:
        """Report that a call was approved and runs."""
        for (agent, key), calls in self._open.items():
            if key == call_id and bool(agent) == of_agent:
                for call in calls:
                    if call.is_started and call.status == "pending":
                        yield self._run(call)
                        return

    def progress(self, event: ToolUpdate, agent: str = "") -> Iterator[bytes]:
        call = self._find(event.tool_call_id, agent, is_started=True)
        if call is None:
            return
        call.has_run = True
        if call.status == "pending":
            yield self._run(call)
        terminal = terminal_of(call.name, event.partial_result.details)
        if terminal:
            call.client_terminal, call.has_terminal = terminal, False
            yield self._update(call, {"content": [terminal_content(terminal)]})
            return
        text = text_of(event.partial_result.content)
        if call.has_terminal:
            yield from self._terminal(
                call, call.output.new_part(text, event.partial_result.details)
            )
        elif text:
            call.waiting = text
            yield from self._show_waiting(call)

    def end(self, event: ToolEnd, agent: str = "") -> Iterator[bytes]:
        call = self._find(event.tool_call_id, agent, is_started=True)
        if call is None:
            return
        self._forget(call)
        text = text_of(event.result.content)
        fields: dict[str, Any] = {}
        if call.client_terminal:
            fields.update(ended_terminal(call.client_terminal, text, is_error=event.is_error))
        elif call.has_terminal and call.has_run:
            yield from self._terminal(call, call.output.last_part(text))
            status = exit_status(text, is_error=event.is_error)
            fields["_meta"] = {"terminal_exit": {"terminal_id": call.shown_id, **status}}
        else:
            fields["content"] = self._content(call, event.result, is_error=event.is_error)
        fields["status"] = "failed" if event.is_error else "completed"
        details = event.result.details
        if details is not UNSET:
            fields["rawOutput"] = raw_details(call.name, details)
            fields.update(self._changed_place(call, details))
        yield self._update(call, fields)

    def replayed(self, block: ToolCall, result: ToolResultMessage | None) -> bytes:
        """Describe a call of a loaded session with its result; without one it has failed."""
        call = _Call(self.new_id(block.id), block.name, "")
        args = block.arguments if isinstance(block.arguments, dict) else {}
        fields = self._described(call, args)
        is_error = result is None or result.is_error
        fields["status"] = "failed" if is_error else "completed"
        if result is not None:
            output = ToolOutput(content=result.content, details=result.details)
            fields["content"] = self._content(call, output, is_error=is_error)
            if result.details is not UNSET:
                fields["rawOutput"] = raw_details(call.name, result.details)
        return self._update(call, fields, kind="tool_call")

    def fail_open(self, agent: str = "") -> Iterator[bytes]:
        """End all calls of an agent that have no result: its run is over."""
        if not agent:
            yield from self.answer_failed()
        for (owner, _), calls in tuple(self._open.items()):
            if owner == agent:
                for call in tuple(calls):
                    yield from self._fail(call)

    # ------------------------------------------------------------ progress that waits

    @property
    def due(self) -> float | None:
        """Return the time of the clock at which `flush` has something to send; None if never."""
        return min((call.due for call in self._all() if call.waiting is not None), default=None)

    def flush(self) -> Iterator[bytes]:
        """Return the progress that is due."""
        for call in tuple(self._all()):
            if call.waiting is not None:
                yield from self._show_waiting(call)

    def _show_waiting(self, call: _Call) -> Iterator[bytes]:
        now = self._sources.clock()
        if call.waiting is None or now < call.due:
            return
        text, call.waiting = call.waiting[-PROGRESS_CHARACTERS:], None
        call.due = now + PROGRESS_SECONDS
        yield self._update(call, {"content": [text_content(text)]})

    # ------------------------------------------------------------ private

    def _all(self) -> Iterator[_Call]:
        return (call for calls in self._open.values() for call in calls)

    def _find(self, call_id: str, agent: str, *, is_started: bool) -> _Call | None:
        calls = self._open.get((agent, call_id), ())
        return next((call for call in calls if call.is_started == is_started), None)

    def _forget(self, call: _Call) -> None:
        for key, calls in tuple(self._open.items()):
            if call in calls:
                calls.remove(call)
                if not calls:
                    del self._open[key]

    def _fail(self, call: _Call) -> Iterator[bytes]:
        self._forget(call)
        yield self._update(call, {"status": "failed"})

    def _run(self, call: _Call) -> bytes:
        call.status = "in_progress"
        return self._update(call, {"status": "in_progress"})

    def _described(self, call: _Call, args: Mapping[str, Any]) -> dict[str, Any]:
        call.args = args
        view = view_call(call.name, args, self._cwd, self._sources.facts(call.name))
        fields: dict[str, Any] = {"title": view.title, "name": call.name, "kind": view.kind}
        if view.locations:
            fields["locations"] = view.locations
        return {**fields, "rawInput": raw_value(args)}

    def _announce_whole(self, call: _Call, args: Mapping[str, Any]) -> bytes:
        described = self._described(call, args)
        return self._announce(call, described.pop("title"), **described)

    def _announce(self, call: _Call, title: str, **fields: Any) -> bytes:
        update: dict[str, Any] = {"title": title, "name": call.name, "status": "pending", **fields}
        if call.name == "bash" and self._client.terminal_output:
            call.has_terminal = True
            update["content"] = [terminal_content(call.shown_id)]
            info = {"terminal_id": call.shown_id, "cwd": str(self._cwd)}
            update["_meta"] = {"terminal_info": info}
        return self._update(call, update, kind="tool_call")

    def _terminal(self, call: _Call, data: str) -> Iterator[bytes]:
        if data:
            output = {"terminal_id": call.shown_id, "data": data}
            yield self._update(call, {"_meta": {"terminal_output": output}})

    def _content(self, call: _Call, output: ToolOutput, *, is_error: bool) -> Blocks:
        if is_error:
            return output_content(output)
        return result_content(call.name, call.args, output, self._cwd, call.old_text)

    def _changed_place(self, call: _Call, details: Any) -> dict[str, Any]:
        line = details.get("firstChangedLine") if isinstance(details, dict) else None
        path = call.args.get("path")
        if call.name != "edit" or not isinstance(line, int) or not isinstance(path, str):
            return {}
        place = absolute_path(path, self._cwd)
        return {"locations": [{"path": str(place), "line": line}]} if place is not None else {}

    def _update(self, call: _Call, fields: dict[str, Any], kind: str = "tool_call_update") -> bytes:
        if call.agent:
            fields["_meta"] = {**fields.get("_meta", {}), AGENT_KEY: call.agent}
        return self._encode({"sessionUpdate": kind, "toolCallId": call.shown_id, **fields})
