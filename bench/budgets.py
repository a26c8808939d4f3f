"""Lines of the benchmark and the budget of each.

A budget is a ratio to the base program measured in the same run, so it holds on any machine; a few
lines have an absolute budget in their unit. docs/performance.md shows the same table.
"""

from typing import Literal

import msgspec

Base = Literal["lean", "fat", "omp", "codex", "goose", "none"]


class Line(msgspec.Struct, frozen=True):
    """One figure. `base` is the program of the ratio: current pi, pi with whole messages, omp,
    codex or goose.

    Without a base the budget is absolute. The default budget requires a figure no worse than the
    base. `same_as` names the line whose figure this line judges by another base.
    """

    key: str
    what: str
    unit: str
    base: Base = "lean"
    budget: float = 1.0
    same_as: str = ""

    @property
    def figure(self) -> str:
        """The key of the figure."""
        return self.same_as or self.key


# Every program: also those with protocols of their own.
FIELD = (
    Line("start", "cold start to the first reply", "ms", budget=0.30),
    Line("start.cpu", "cold start to the first reply, CPU", "ms", budget=0.35),
    Line("ready", "cold start to a session", "ms", budget=0.30),
    Line("delta", "cold start to the first delta", "ms", budget=0.45),
    Line("delta.cpu", "cold start to the first delta, CPU", "ms", budget=0.45),
    Line(
        "delta.codex", "cold start to the first delta, against codex", "ms", "codex", 0.9, "delta"
    ),
    Line("first", "first delta after a prompt, warm", "ms", budget=0.6),
    Line("lean.5k", "5k deltas, CPU per delta (pi-delta)", "µs", budget=0.35),
    Line("lean.20k", "20k deltas, CPU per delta (pi-delta)", "µs", budget=0.35),
    Line("lean.20k.wall", "20k deltas, wall per delta (pi-delta)", "µs", budget=0.4),
    Line("lean.20k.bytes", "20k deltas, bytes per delta (pi-delta)", "B"),
    Line("lean.20k.few", "the same, `usage` only where it changes", "B", "none", 140),
    Line("lean.20k.peak", "20k deltas, peak RSS (pi-delta)", "MiB", budget=0.4),
    Line("paced", "CPU share at 200 deltas/s", "%", budget=0.5),
    Line("loop", "tool loop, wall per turn", "ms", budget=0.35),
    Line("loop.cpu", "tool loop, CPU per turn", "ms", budget=0.25),
    Line("rss.idle", "RSS idle", "MiB", "none", 28),
    Line("rss.after", "RSS after use", "MiB", "none", 38),
    Line("eight.pss", "eight processes, PSS", "MiB", budget=0.45),
    Line(
        "eight.pss.goose", "eight processes, PSS, against goose", "MiB", "goose", 0.95, "eight.pss"
    ),
    Line("eight.ready", "eight processes, all ready", "ms", budget=0.45),
    Line("eight.stream", "eight processes, 2k deltas each, wall", "ms"),
    Line("overhead", "prompt overhead, tokens of four bytes", "tokens", "none", 900),
)
# Counts of Ludolf, which do not vary with load.
COUNTS = (
    Line("start.modules", "modules at the first reply", "", "none", 230),
    Line("start.calls", "system calls until the first reply", "", "none", 3000),
    Line("start.regexes", "regular expressions compiled at the first reply", "", "none", 25),
    Line("start.many", "400 installed distributions, CPU of the start", "ms", "none", 5),
    Line("paced.instructions", "instructions per separate delta", "k", "none", 130),
)
# Programs that speak the RPC protocol of pi.
RPC = (
    Line("idle.p50", "`get_state` idle, p50", "ms", budget=1.3),
    Line("idle.p99", "`get_state` idle, p99", "ms", budget=1.0),
    Line("busy.p99", "`get_state` at 500 deltas/s, p99", "ms", budget=1.0),
    Line("flat.worst", "`get_state` in a flat-out stream, worst", "ms", budget=0.5),
    Line("lean.1k", "1k deltas, CPU per delta (pi-delta)", "µs", budget=0.35),
    Line("fat.20k", "20k deltas, CPU per delta (pi)", "µs", "fat", 0.15),
    Line("fat.20k.bytes", "20k deltas, bytes per delta (pi)", "B", "fat"),
    Line("fat.20k.peak", "20k deltas, peak RSS (pi)", "MiB", "fat", 0.4),
    Line("early.20k", "20k deltas, CPU per delta (pi-early)", "µs", "fat", 0.15),
    Line("early.20k.bytes", "20k deltas, bytes per delta (pi-early)", "B", "fat"),
    Line("omp.20k", "20k deltas, CPU per delta (omp)", "µs", "omp", 0.35),
    Line("omp.20k.bytes", "20k deltas, bytes per delta (omp)", "B", "omp"),
    Line("omp.20k.peak", "20k deltas, peak RSS (omp)", "MiB", "omp", 0.4),
    Line("xcsh.20k", "20k deltas, CPU per delta (xcsh)", "µs", "omp", 0.35),
    Line("xcsh.20k.bytes", "20k deltas, bytes per delta (xcsh)", "B", "omp"),
    Line("unread.fat", "20k unread deltas, RSS (pi)", "MiB", "fat", 0.4),
    Line("unread.omp", "20k unread deltas, RSS (omp)", "MiB", "omp", 0.4),
    Line("arguments.5k", "tool arguments, 5k deltas, CPU", "ms", budget=0.05),
    Line("arguments.20k", "tool arguments, 20k deltas, CPU", "ms", budget=0.02),
    Line("shell", "RPC `bash`, 100 MB of output", "s", "omp"),
    Line("shell.peak", "RPC `bash`, 100 MB of output, peak RSS", "MiB", budget=0.4),
    Line("tool", "the model's `bash`, 100 MB of output", "s", budget=0.9),
    Line("switch.10", "`switch_session`, 10 MB", "ms", budget=0.5),
    Line("switch.100", "`switch_session`, 100 MB", "ms", budget=0.4),
    Line("messages.10", "`get_messages`, 10 MB", "ms", budget=0.7),
    Line("messages.100", "`get_messages`, 100 MB", "ms", budget=0.7),
    Line("export.10", "`export_html`, 10 MB", "ms"),
    Line("export.100", "`export_html`, 100 MB", "ms"),
    Line("load.100", "start on a session of 100 MB", "ms", budget=0.45),
    Line("load.100.rss", "RSS after switch and `get_messages`, 100 MB", "MiB", budget=0.5),
    Line("list.10", "`list_sessions`, ten of 1 MB", "ms", "none", 250),
    Line("list.100", "`list_sessions`, ten of 10 MB", "ms", "none", 2500),
    Line("frame.100", "an input frame of 100 MB", "s", budget=0.02),
    Line("queue", "3,000 queued follow-ups, bytes out (pi-delta)", "kB", budget=0.05),
    # Nearly all of it are replies, which are the same in both programs.
    Line("queue.omp", "3,000 queued follow-ups, bytes out (omp)", "kB", "omp", 1.01),
)
# Parts of Ludolf: sessions in one process, MCP, scripts and ACP.
PARTS = (
    Line("second", "second session in one process, start", "ms", "none", 10),
    Line("second.rss", "second session in one process, memory", "MiB", "none", 5),
    Line("fifty", "fifty sessions in one process, start of each", "ms", "none", 10),
    Line("fifty.rss", "fifty sessions in one process, memory of each", "MiB", "none", 5),
    Line("fifty.turn", "fifty sessions at once, CPU of each prompt", "ms", "none", 10),
    Line("mcp.none", "start without MCP servers, the check", "ms", "none", 0.1),
    Line("mcp.start", "six known MCP servers, CPU after the first reply", "ms", "none", 3),
    Line("mcp.stdio", "MCP call over pipes, CPU", "µs", "none", 120),
    Line("mcp.http", "MCP call over HTTP, CPU", "ms", "none", 1.3),
    Line("mcp.memory", "first MCP connection, memory", "MiB", "none", 1.5),
    Line("mcp.index", "index of 1,000 MCP tools", "ms", "none", 150),
    Line("mcp.query", "search in 1,000 MCP tools, worst query", "ms", "none", 1),
    Line("mcp.end", "end with a stubborn MCP server", "s", "none", 2.5),
    Line("scripts.start.1", "one script: start to `get_commands`", "ms", budget=0.6),
    Line("scripts.start.1.cpu", "one script: the same, CPU", "ms", budget=0.6),
    Line("scripts.start.1.pss", "one script: PSS of all processes", "MiB", budget=0.8),
    Line("scripts.start.1.rss", "one script: RSS of all processes", "MiB", budget=0.8),
    Line("scripts.start.20", "20 scripts: start to `get_commands`", "ms", budget=0.6),
    Line("scripts.start.20.cpu", "20 scripts: the same, CPU", "ms", budget=0.6),
    Line("scripts.start.20.pss", "20 scripts: PSS of all processes", "MiB", budget=0.8),
    Line("scripts.start.20.rss", "20 scripts: RSS of all processes", "MiB", budget=0.8),
    Line("scripts.package.pi-subagents.cpu", "pi-subagents 0.67.0: start, CPU", "ms"),
    Line("scripts.package.pi-mcp-adapter.cpu", "pi-mcp-adapter 2.36.0: start, CPU", "ms"),
    Line("scripts.package.pi-web-access.cpu", "pi-web-access 0.28.0: start, CPU", "ms"),
    Line("scripts.hook", "a handler of a script", "µs", "none", 150),
    Line("scripts.read", "a script reads state synchronously", "µs", "none", 150),
    Line("scripts.new", "one script: `new_session`", "ms", "none", 100),
    Line("scripts.reload", "one script: reload", "ms", "none", 100),
    Line("scripts.update", "a script that watches 5k deltas, CPU per delta", "µs", budget=1.2),
    Line("scripts.context", "a script that sees 1 MB of context, CPU per turn", "ms", "none", 4),
    # Figures of ACP in "×" are ratios to RPC mode in the same run.
    Line("acp.start", "ACP: start to `initialize`, of `get_state`", "×", "none", 0.9),
    Line("acp.session", "ACP: start to the first session, of `get_state`", "×", "none", 1.15),
    Line("acp.further", "ACP: a further session, of `get_state`", "×", "none", 0.05),
    Line("acp.rss", "ACP: memory with one session, above RPC", "MiB", "none", 1),
    Line("acp.further.rss", "ACP: memory of a further session", "MiB", "none", 5),
    Line("acp.delta", "ACP: CPU per delta, of pi-delta", "×", "none", 1.2),
    Line("acp.delta.bytes", "ACP: bytes per delta", "B", "none", 260),
    Line("acp.output", "ACP: bytes for 20,000 lines of output, of their size", "×", "none", 1.2),
    Line("acp.terminal", "ACP: the same, shown in a terminal", "×", "none", 1.2),
)
# A server of many sessions.
SERVER = (
    Line("serve.rss.0", "server: RSS without sessions", "MiB", "codex", 0.35),
    Line("serve.rss.10", "server: RSS with 10 idle sessions", "MiB", "codex", 0.35),
    Line("serve.rss.50", "server: RSS with 50 idle sessions", "MiB", "codex", 0.35),
    Line("serve.rss.500", "server: RSS with 500 idle sessions", "MiB", "none", 70),
    Line("serve.rss.after", "server: RSS after a prompt in each of 50", "MiB", "codex", 0.35),
    Line("serve.open", "server: open a session", "ms", "codex", 1.0),
    Line("serve.open.cpu", "server: open a session, CPU", "ms", "codex", 1.0),
    Line("serve.prompt", "server: 50 prompts at once, CPU of each", "ms", "codex", 0.15),
    Line("serve.deltas", "server: 1,410 deltas, one client, CPU", "ms", "codex", 0.3),
    Line("serve.deltas.further", "server: the same, each further client", "ms", "codex", 0.1),
    Line("serve.paced.1", "server: at 100 deltas/s, CPU per delta, 1 client", "µs", "codex", 0.6),
    Line("serve.paced.8", "server: at 100 deltas/s, CPU per delta, 8 clients", "µs", "codex", 0.6),
    Line("serve.attach", "server: attach to 13 answers of 18 kB", "ms", "codex", 0.5),
    Line("serve.attach.10", "server: attach to 10 MB, last 20 entries", "ms", "none", 10),
    Line("serve.attach.100", "server: attach to 100 MB, last 20 entries", "ms", "none", 10),
    Line("serve.load.10", "server: load a session of 10 MB, CPU", "ms", "none", 60),
    Line("serve.load.100", "server: load a session of 100 MB, CPU", "ms", "none", 300),
)
# The terminal and the page.
FRONTS = (
    Line("terminal.start.cpu", "terminal: CPU to the first key on the screen", "ms", budget=0.25),
    Line("terminal.start", "terminal: time to the first key on the screen", "ms", budget=0.5),
    Line("terminal.rss", "terminal: RSS with its engine, idle", "MiB", budget=0.6),
    Line("terminal.key.p50", "terminal: key to screen, p50", "ms", "none", 5),
    Line("terminal.key.p99", "terminal: key to screen, p99", "ms", "none", 16),
    Line("terminal.stream.key.p50", "terminal: key to screen in a stream, p50", "ms", "none", 16),
    Line("terminal.stream.key.p99", "terminal: key to screen in a stream, p99", "ms", "none", 50),
    Line("terminal.stream.cpu", "terminal: 480 deltas of Markdown, CPU", "s", "none", 0.3),
    Line("terminal.rows", "terminal: memory after 100,000 rows", "MiB", "none", 5),
    Line("terminal.idle.cpu", "terminal: CPU of five idle seconds", "ms", "none", 0),
    Line("terminal.idle.bytes", "terminal: bytes written in five idle seconds", "B", "none", 0),
    Line("web.bytes", "page of the server: bytes", "kB", "none", 200),
    Line("web.deltas", "page of the server: 20,000 deltas in Chromium", "s", "none", 3),
    Line("web.entries", "page of the server: 10,000 entries, of `ludolf view`", "×", "none", 1.2),
)
# Batches.
BATCH = (
    Line("batch.one", "batch: one item with the offline model", "s", "none", 1),
    Line("batch.driver", "batch: CPU of the driver per item", "ms", "none", 2),
    Line("batch.gate", "batch: CPU of the gate per request, both ends", "ms", "none", 0.3),
    Line("batch.turn", "batch: a turn with `bash`, 200 other children, CPU", "ms", "none", 4),
    Line("batch.agent", "batch: memory of an agent", "MiB", "none", 0.5),
    Line("batch.agent.long", "batch: memory of an agent at 100,000 tokens", "MiB", "none", 4),
    Line("batch.resume", "batch: resume over 100,000 results of 192 MB, CPU", "s", "none", 1),
    Line("batch.resume.rss", "batch: the same, memory", "MiB", "none", 30),
)
# Telemetry.
TELEMETRY = (
    Line("telemetry.none", "start without telemetry, the check", "ms", "none", 0.1),
    Line("telemetry.turn", "telemetry: a turn with one tool call, CPU", "ms", "none", 0.4),
    Line("telemetry.delta", "telemetry: CPU per delta", "µs", "none", 0.4),
    Line("telemetry.export", "telemetry: export, CPU per span", "ms", "none", 0.15),
    Line("telemetry.end", "telemetry: end with a dead collector", "s", "none", 2.5),
)

# The tables of docs/performance.md.
SECTIONS: dict[str, tuple[Line, ...]] = {
    "field": FIELD,
    "counts": COUNTS,
    "rpc": RPC,
    "parts": PARTS,
    "server": SERVER,
    "fronts": FRONTS,
    "batch": BATCH,
    "telemetry": TELEMETRY,
}
LINES: tuple[Line, ...] = tuple(line for lines in SECTIONS.values() for line in lines)


class Rule(msgspec.Struct, frozen=True):
    """Growth of cost with size, without a peer: the ratio may be at most `limit`."""

    key: str
    what: str
    limit: float


RULES: tuple[Rule, ...] = (
    Rule("growth.deltas", "20k deltas: the second half against the first, CPU", 1.2),
    Rule("growth.turns", "200 turns: the last twenty against turns 10 to 30, CPU", 1.2),
    Rule("growth.switch", "`switch_session`: 100 MB against 10 MB, CPU", 11),
    Rule("growth.tools", "turns with 1,000 deferred MCP tools against 10, CPU", 1.1),
    Rule("growth.arguments", "20k argument deltas: the second half against the first, CPU", 1.2),
    Rule("growth.sessions", "a server: the 500th session opened against the 5th, CPU", 1.2),
    Rule("growth.terminal", "terminal: the last of 20k deltas against the first, CPU", 1.2),
    Rule("growth.connections", "a server: 10,000 clients come and go, memory", 1.1),
)
