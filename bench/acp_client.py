"""Client of the Agent Client Protocol that opens sessions, sends prompts and counts updates."""

import json
from typing import Any

import msgspec

from bench.agent import Agent

_HEAD = 200


class JsonRpcAgent(Agent):
    """An agent that speaks JSON-RPC: commands are methods, a reply has its answer as `result`."""

    patience = 180.0
    session_id = ""

    def send(self, kind: str, **fields: Any) -> str:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": kind, "params": fields}
        self.write(json.dumps(message).encode() + b"\n")
        return str(self._number)

    def notify(self, kind: str) -> None:
        """Send a message that has no answer."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": kind}).encode() + b"\n")

    def _keep(self, line: bytes, now: float) -> None:
        reply = msgspec.json.decode(line)
        if "method" not in reply:
            about = {"at": now, "success": "result" in reply}
            self._replies[str(reply.get("id"))] = {**reply, **about}


class EditorAgent(JsonRpcAgent):
    """An agent that speaks ACP."""

    _prompted = ""

    def greet(self) -> float:
        return self.initialize()

    def initialize(self, *, shows_terminals: bool = False) -> float:
        """Send the first request; returns the time of its answer."""
        capabilities = {"_meta": {"terminal_output": True}} if shows_terminals else {}
        reply = self.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
        return float(reply["at"])

    def open_session(self) -> float:
        """Open a session, to which prompts go from then on; returns the time of the answer."""
        reply = self.ask("session/new", cwd=str(self._cwd), mcpServers=[])
        self.session_id = reply["result"]["sessionId"]
        return float(reply["at"])

    def prompt(self, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self._prompted = self.send("session/prompt", sessionId=self.session_id, prompt=content)

    def _line(self, line: bytes, now: float) -> None:
        head = line[:_HEAD]
        if b'"agent_message_chunk"' in head:
            self._count_delta(now)
        elif b'"session/update"' not in head:
            self._keep(line, now)
            reply = self._replies.pop(self._prompted, None)
            if reply is not None:
                self._end_run(now, failed=not reply["success"], line=line)
