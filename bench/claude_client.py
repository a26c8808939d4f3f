"""Client of Claude Code with streams of JSON on both pipes."""

import json
from typing import Any

import msgspec

from bench.agent import Agent

_HEAD = 100


class ClaudeAgent(Agent):
    patience = 180.0

    def send(self, kind: str, **fields: Any) -> str:
        """Write a control request; returns its id."""
        self._number += 1
        name = f"q{self._number}"
        request = {"subtype": kind, **fields}
        self._put({"type": "control_request", "request_id": name, "request": request})
        return name

    def greet(self) -> float:
        return float(self.ask("initialize")["at"])

    def prompt(self, text: str) -> None:
        self._put({"type": "user", "message": {"role": "user", "content": text}})

    def _put(self, message: dict[str, Any]) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def _line(self, line: bytes, now: float) -> None:
        head = line[:_HEAD]
        if b'"content_block_delta"' in head:
            self._count_delta(now)
        elif b'"control_response"' in head:
            self._keep(line, now)
        elif b'"duration_api_ms":' in line:  # the result of a run; its type is not at a fixed place
            self._end_run(now, failed=b'"is_error":true' in line, line=line)

    def _keep(self, line: bytes, now: float) -> None:
        reply = msgspec.json.decode(line)["response"]
        success = reply["subtype"] == "success"
        self._replies[reply["request_id"]] = {**reply, "at": now, "success": success}
