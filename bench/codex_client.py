"""Client of `codex app-server` on its pipes: threads and turns over JSON-RPC."""

import msgspec

from bench.acp_client import JsonRpcAgent

_HEAD = 100


class CodexAgent(JsonRpcAgent):
    def greet(self) -> float:
        reply = self.ask("initialize", clientInfo={"name": "bench", "version": "1"})
        self.notify("initialized")
        return float(reply["at"])

    def open_session(self) -> float:
        reply = self.ask("thread/start", cwd=str(self._cwd))
        self.session_id = reply["result"]["thread"]["id"]
        return float(reply["at"])

    def prompt(self, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self.send("turn/start", threadId=self.session_id, input=content)

    def _line(self, line: bytes, now: float) -> None:
        head = line[:_HEAD]
        if b'"item/agentMessage/delta"' in head:
            self._count_delta(now)
        elif b'"turn/completed"' in head:
            status = msgspec.json.decode(line)["params"]["turn"]["status"]
            self._end_run(now, failed=status == "failed", line=line)
        elif b'"method":' not in head:
            self._keep(line, now)
