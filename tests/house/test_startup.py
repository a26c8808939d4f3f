"""The first reply does not wait for modules that it does not need."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.known_servers import write_known_servers
from tests.anthropic_wire import sse, text_answer
from tests.house.source import SOURCE
from tests.loopback import Canned, Loopback

MCP = ("ludolf.mcp", "ludolf.config.mcp", "ludolf.engine.features.mcp")
# The only part of the client that a configured server loads before the first reply.
MCP_FEATURE = ("ludolf.engine.features.mcp", "ludolf.engine.features.mcp.feature")
# By the beginning of their names; asyncio itself brings logging, msgspec brings uuid.
LATER = (
    "PIL",
    "aiohttp",
    "httptools",
    "ludolf.ai.http.exchange",
    "ludolf.ai.http.pool",
    "argparse",
    "attr",
    "dataclasses",
    "difflib",
    "email",
    "http",
    "importlib.metadata",
    "importlib.resources",
    "json",
    "jsonschema_rs",
    "multidict",
    "opentelemetry",
    "shutil",
    "tempfile",
    "wcwidth",
    "yaml",
    "yarl",
    "ludolf.agent.batch",
    "ludolf.agent.loop",
    "ludolf.ai.history",
    "ludolf.ai.providers.anthropic.provider",
    "ludolf.ai.providers.google.provider",
    "ludolf.ai.providers.openai",
    "ludolf.ai.stream",
    "ludolf.ai.strict_schema",
    "ludolf.ai.tool_schema",
    "ludolf.client",
    "ludolf.config.resources.context_files",
    "ludolf.config.resources.front_matter",
    "ludolf.config.resources.ignore",
    "ludolf.config.settings.lock",
    "ludolf.config.resources.sources",
    "ludolf.config.resources.skills",
    "ludolf.config.resources.system_prompt",
    "ludolf.config.resources.templates",
    "ludolf.config.settings.trust",
    "ludolf.extensions.",
    "ludolf.cli.help",
    "ludolf.engine.history.compact",
    "ludolf.engine.history.handoff",
    "ludolf.engine.history.summaries",
    "ludolf.engine.history.tree",
    "ludolf.engine.host.host_calls",
    "ludolf.engine.run.prompting",
    "ludolf.page.live",
    "ludolf.cli.one_shot",
    "ludolf.cli.progress",
    "ludolf.protocol.images",
    "ludolf.protocol.wire",
    "ludolf.rpc.handlers.prompts",
    "ludolf.rpc.handlers.sessions",
    "ludolf.session.branching",
    "ludolf.session.compaction",
    "ludolf.page",
    "ludolf.session.migrate",
    "ludolf.session.stats",
    "ludolf.session.summary_text",
    "ludolf.cli.subcommands",
    "ludolf.sdk",
    "ludolf.ai.local.servers",
    "ludolf.ai.local.provider",
    "ludolf.ai.local.files",
    "ludolf.ai.local.gguf",
    "ludolf.ai.local.kinds",
    "ludolf.ai.local.servers",
    "ludolf.tui",
    "ludolf.ai.http.oauth",
    "ludolf.ai.record.recording",
    "ludolf.ai.record.replay",
    "ludolf.config.auth.oauth",
    "ludolf.config.models.models_store",
    "ludolf.config.settings.approval_rules",
    "ludolf.config.settings.safety_settings",
    "ludolf.config.settings.approval_rules",
    "ludolf.engine.host.approvals",
    "ludolf.engine.host.logins",
    "ludolf.engine.features.safety",
    "ludolf.engine.features.script_extensions",
    "ludolf.engine.features.secrets",
    "ludolf.engine.features.subagents.",
    "ludolf.engine.features.telemetry",
    "ludolf.tools.",
    *MCP,
)
# What is loaded some time after the start is put off, since a busy machine may need so long for the
# reply itself.
PROGRAM = """
import sys
from ludolf.rpc import server
server.WARM_UP_SECONDS = 3600
from ludolf.cli.main import main
main(sys.argv[1:])
"""
START = (sys.executable, "-X", "importtime", "-P", "-c", PROGRAM)
# Writes the patterns that were compiled and the modules that were loaded before the first reply.
COUNTING_PROGRAM = """
import re._compiler, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
patterns = []
compile_pattern = re._compiler.compile

def count(pattern, flags):
    patterns.append(repr(pattern))
    return compile_pattern(pattern, flags)

re._compiler.compile = count
from ludolf.cli.late_modules import LateModule, import_msgspec, load_late, read_modules_at_once
read_modules_at_once()
load_late()
import_msgspec()
from ludolf.cli.main import main
from ludolf.rpc import server
server.WARM_UP_SECONDS = 3600

class Watched(server.Stdio):
    def send(self, frame):
        loaded = [name for name, module in sys.modules.items() if type(module) is not LateModule]
        late = [name for name, module in sys.modules.items() if type(module) is LateModule]
        sys.stderr.write("\\n".join((" ".join(found) for found in (loaded, late))) + "\\n")
        sys.stderr.write("\\n".join(patterns))
        super().send(frame)

server.Stdio = Watched
main(sys.argv[1:])
"""
# With Python's own about 130. Each module costs about 0.3 ms.
MOST_MODULES = 230
MOST_OWN_MODULES = 100
# All are of the standard library: ours are compiled on first use.
MOST_PATTERNS = 15
BUILT_IN_MODELS = ("ludolf.ai.providers.",)
_IMPORTED = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)


def _modules_at_first_reply(home: Path, **environ: str) -> list[str]:
    """The end of input follows the command at once, so little more than the reply is done."""
    output, names = _run(home, ("--mode", "rpc"), '{"type":"get_state"}\n', **environ)
    assert '"command":"get_state","success":true' in output
    return names


def _modules_of_a_prompt(home: Path) -> list[str]:
    words = ("--model", "ludolf/offline", "--no-session", "-p", "say hello")
    output, names = _run(home, words)
    assert output.strip()
    return names


def _run(
    home: Path, words: Sequence[str], given: str = "", **environ: str
) -> tuple[str, list[str]]:
    """Return the output of the program and the modules that it imported."""
    done = subprocess.run(
        [*START, *words],
        input=given,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": str(home), **environ},
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    names = _IMPORTED.findall(done.stderr)
    assert "ludolf.cli.main" in names
    return done.stdout, names


@pytest.mark.parametrize(
    ("environ", "later"),
    [
        pytest.param({}, LATER, id="offline"),
        pytest.param({"OPENAI_API_KEY": "k"}, (*LATER, *BUILT_IN_MODELS), id="with a key"),
    ],
)
def test_the_first_reply_loads_only_what_it_needs(
    environ: dict[str, str], later: tuple[str, ...], tmp_path: Path
) -> None:
    loaded = _modules_at_first_reply(tmp_path, **environ)
    assert not _among(loaded, later)


def test_few_modules_and_patterns_delay_the_first_reply(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", COUNTING_PROGRAM, "--mode", "rpc"],
        input='{"type":"get_state"}\n',
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"command":"get_state","success":true' in done.stdout
    loaded, late, *patterns = done.stderr.split("\n")
    names = loaded.split()
    assert len([name for name in names if name.startswith("ludolf")]) <= MOST_OWN_MODULES
    assert len(names) <= MOST_MODULES
    assert len(patterns) <= MOST_PATTERNS, "\n".join(patterns)
    assert {"asyncio.sslproto", "msgspec.inspect", "ssl"} <= set(late.split())


def test_with_telemetry_nothing_of_it_is_loaded_before_the_first_reply(tmp_path: Path) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    loaded = _modules_at_first_reply(tmp_path, **endpoint)
    assert "ludolf.engine.features.telemetry.feature" in loaded
    assert not _among(loaded, ("opentelemetry", "google", "requests", "urllib3"))


def test_without_telemetry_a_prompt_loads_nothing_of_it(tmp_path: Path) -> None:
    loaded = _modules_of_a_prompt(tmp_path)
    assert not _among(loaded, ("opentelemetry", "ludolf.engine.features.telemetry"))


def test_without_servers_a_prompt_loads_nothing_of_the_mcp_client(tmp_path: Path) -> None:
    assert not _among(_modules_of_a_prompt(tmp_path), MCP)


def test_known_servers_are_neither_loaded_before_the_first_reply_nor_started_by_a_prompt(
    tmp_path: Path,
) -> None:
    started = tmp_path / "started"
    agent = tmp_path / ".pi" / "agent"
    write_known_servers(agent / "mcp.json", agent, tmp_path, ("touch", str(started)))
    early = _among(_modules_at_first_reply(tmp_path), MCP)
    assert sorted(early) == sorted(MCP_FEATURE)
    assert "ludolf.engine.features.mcp.server_set" in _modules_of_a_prompt(tmp_path)
    assert not started.exists()


def test_without_scripts_an_extension_loads_nothing_of_them_and_starts_no_node(
    tmp_path: Path,
) -> None:
    started, program = tmp_path / "started", tmp_path / "node"
    program.write_text(f"#!/bin/sh\ntouch {started}\n")
    program.chmod(0o755)
    agent = tmp_path / ".pi" / "agent"
    (agent / "extensions").mkdir(parents=True)
    (agent / "extensions" / "mine.py").write_text("def extension(api): ...")
    (agent / "settings.json").write_text(json.dumps({"nodeCommand": str(program)}))
    loaded = _modules_of_a_prompt(tmp_path)
    assert "ludolf.extensions.extensions" in loaded
    assert not _among(loaded, ("ludolf.engine.features.script_extensions",))
    assert not started.exists()


def test_a_prompt_to_a_model_server_loads_the_small_client_only(tmp_path: Path) -> None:
    provider = {"api": "anthropic-messages", "apiKey": "k", "models": [{"id": "large"}]}
    with Loopback(Canned(chunks=[sse(*text_answer("Hello."))])) as server:
        agent = tmp_path / ".pi" / "agent"
        agent.mkdir(parents=True)
        models = {"providers": {"lab": {**provider, "baseUrl": server.url}}}
        (agent / "models.json").write_text(json.dumps(models))
        process = subprocess.Popen(
            [*START, "--mode", "rpc", "--model", "lab/large"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": str(tmp_path)},
            cwd=tmp_path,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"type":"prompt","message":"go"}\n')
        process.stdin.flush()
        settled = any(b'"agent_settled"' in line for line in process.stdout)
        _, report = process.communicate(timeout=60)
    loaded = _IMPORTED.findall(report.decode())
    assert settled
    assert len(server.requests) == 1
    assert "httptools" in loaded
    # `ssl` comes with asyncio; the modules of TLS and of names that are not ASCII do not.
    unwanted = ("aiohttp", "yarl", "multidict", "idna", "encodings.idna", "ludolf.ai.http.tls")
    assert not _among(loaded, unwanted)


def _among(loaded: list[str], names: tuple[str, ...]) -> list[str]:
    return [name for name in loaded if f"{name}.".startswith(tuple(_whole(names)))]


def _whole(names: tuple[str, ...]) -> list[str]:
    """Names of third parties match whole modules; ours match by their beginning."""
    return [name if name.startswith("ludolf.") else f"{name}." for name in names]


# Writes the modules that are loaded when the prompt of the terminal is drawn.
TERMINAL_PROGRAM = """
import sys
from ludolf.tui import screen

class Watched(screen.LiveScreen):
    def draw(self):
        super().draw()
        with open(sys.argv[1], "w") as file:
            file.write("\\n".join(sys.modules))
        import os
        os._exit(0)

screen.LiveScreen = Watched
from ludolf.cli.main import main
main([])
"""


def test_a_terminal_shows_its_prompt_before_the_client_is_loaded(tmp_path: Path) -> None:
    found = tmp_path / "modules"
    leader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm-256color"}
    subprocess.run(
        [sys.executable, "-P", "-c", TERMINAL_PROGRAM, str(found)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**environ, "PYTHONPATH": str(SOURCE)},
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    os.close(leader)
    os.close(terminal)
    loaded = found.read_text().splitlines()
    assert "ludolf.tui.app" in loaded
    own = (
        *("ludolf.client", "ludolf.engine", "ludolf.page", "ludolf.protocol.wire", "ludolf.rpc"),
        *("ludolf.serve", "ludolf.session", "ludolf.tools", "ludolf.tui.rows"),
    )
    assert [name for name in loaded if name.startswith(own)] == []
    others = ("aiohttp", "PIL", "yaml", "jsonschema_rs", "argparse", "difflib", "wcwidth")
    assert not _among(loaded, others)


# Writes the modules that are loaded when the first answer is sent.
ACP_PROGRAM = """
import sys
from ludolf.cli.main import main
from ludolf.rpc.stdio import Stdio

class Watched(Stdio):
    def send(self, frame):
        sys.stderr.write("\\n".join(sys.modules) + "\\n")
        super().send(frame)

from ludolf.acp import run
run.Stdio = Watched
main(["acp"])
"""


def test_an_editor_gets_its_first_answer_before_the_engine_is_loaded(tmp_path: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    done = subprocess.run(
        [sys.executable, "-P", "-c", ACP_PROGRAM],
        input=json.dumps(hello) + "\n",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"protocolVersion":1' in done.stdout
    loaded = done.stderr.splitlines()
    assert "ludolf.acp.server" in loaded
    heavy = ("ludolf.engine", "ludolf.session", "ludolf.tools", "ludolf.config.models")
    assert [name for name in loaded if name.startswith(heavy)] == []
