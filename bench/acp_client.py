"""Client of the Agent Client Protocol that opens sessions, sends prompts and counts updates."""

import json
import time
from typing import Any

import msgspec

from bench.agent import Agent, Run
from bench.programs import Home

_HEAD = 64


class EditorAgent(Agent):
    """An agent that speaks ACP: commands are methods, and a reply has its answer as `result`."""

    session_id = ""

    def send(self, kind: str, **fields: Any) -> str:
        self._number += 1
        name = f"q{self._number}"
        message = {"jsonrpc": "2.0", "id": name, "method": kind, "params": fields}
        self.write(json.dumps(message).encode() + b"\n")
        return name

    def initialize(self, *, shows_terminals: bool = False) -> float:
        """Send the first request; returns the time of its answer."""
        capabilities = {"_meta": {"terminal_output": True}} if shows_terminals else {}
        reply = self.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
        return float(reply["at"])

    def open_session(self, home: Home) -> float:
        """Open a session, to which prompts go from then on; returns the time of the answer."""
        reply = self.ask("session/new", cwd=str(home.work), mcpServers=[])
        self.session_id = reply["result"]["sessionId"]
        return float(reply["at"])

    def run(self, prompt: str, timeout: float = 900) -> Run:
        """Send a prompt and wait for its answer."""
        updates, sizes, cpu = self.updates, self.bytes_out, self.cpu()
        start = time.perf_counter()
        content = [{"type": "text", "text": prompt}]
        reply = self.ask("session/prompt", timeout, sessionId=self.session_id, prompt=content)
        self.rest(0.05)  # pending writes belong to the run
        return Run(
            wall=reply["at"] - start,
            cpu=self.cpu() - cpu,
            bytes_out=self.bytes_out - sizes,
            updates=self.updates - updates,
            first_update=None,
        )

    def _line(self, line: bytes, now: float) -> None:
        if b'"session/update"' in line[:_HEAD]:
            self.updates += 1
        else:
            self._keep(line, now)

    def _keep(self, line: bytes, now: float) -> None:
        reply = msgspec.json.decode(line)
        if "method" not in reply:
            success = "result" in reply
            self._replies[str(reply.get("id"))] = {**reply, "at": now, "success": success}


def start_editor(home: Home) -> EditorAgent:
    return EditorAgent(home.words("acp"), home.env(), home.work, settles=True)
