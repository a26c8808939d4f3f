"""Find and start the measured programs, each with a private home folder."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from bench.acp_client import EditorAgent
from bench.agent import Agent
from bench.claude_client import ClaudeAgent
from bench.codex_client import CodexAgent
from bench.other_homes import LAUNCHES, OFFLINE
from ludolf import __version__

Kind = Literal["ludolf", "pi", "omp", "tau", "codex", "goose", "claude", "opencode"]
# Programs with protocols of their own, which are compared where the protocols have the same step.
OTHERS: dict[Kind, type[Agent]] = {
    "codex": CodexAgent,
    "goose": EditorAgent,
    "claude": ClaudeAgent,
    "opencode": EditorAgent,
}
PEERS: tuple[Kind, ...] = ("pi", "omp", "tau", *OTHERS)
OURS = "ludolf"
PEERS_FILE = "peers.json"
ROOT = Path(__file__).parents[1]
# Since this release, pi does not send the whole message with each delta.
LEAN_SINCE = (0, 84)
_KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "TMPDIR")
_WINDOW = 100_000_000


class Program(msgspec.Struct, frozen=True):
    name: str
    kind: Kind
    command: tuple[str, ...]
    version: str

    @property
    def is_fat(self) -> bool:
        """Return whether it sends the whole message with each delta."""
        return self.kind != "ludolf" and not self.is_other and not self.is_lean

    @property
    def is_other(self) -> bool:
        """Return whether it has a protocol of its own."""
        return self.kind in OTHERS

    @property
    def is_lean(self) -> bool:
        return self.kind == "pi" and _numbers(self.version) >= LEAN_SINCE


def ours() -> Program:
    return Program(OURS, "ludolf", (sys.executable, "-m", "ludolf"), __version__)


def find_peers(names: str, folder: Path | None = None) -> list[Program]:
    """Return the programs in `NAME[:KIND]=COMMAND …`, in the folder, and others on PATH."""
    peers = {each.name: each for each in (*_named_peers(names), *_installed_peers(folder))}
    for name in PEERS:
        path = shutil.which(name)
        if path and not any(each.kind == name for each in peers.values()):
            peers[name] = Program(name, name, (path,), version_of((path,)))
    return list(peers.values())


def _named_peers(names: str) -> Iterator[Program]:
    for word in shlex.split(names):
        head, _, command = word.partition("=")
        name, _, kind = head.partition(":")
        kind = kind or name
        if kind not in PEERS or not command:
            sys.exit(f"PEERS: not NAME[:{'|'.join(PEERS)}]=COMMAND: {word}")
        words = tuple(shlex.split(command))
        yield Program(name, kind, words, version_of(words))


def _installed_peers(folder: Path | None) -> list[Program]:
    file = folder / PEERS_FILE if folder else None
    if file is None or not file.is_file():
        return []
    return msgspec.json.decode(file.read_bytes(), type=list[Program])


def version_of(command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Return the version that a program prints, or a question mark."""
    words = [*command, "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, env=env)
    match = re.search(r"\d+\.\d+[\w.]*", done.stdout + done.stderr)
    return match[0] if match else "?"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


class Home:
    """Private home folder of one program, with a model on the loopback server."""

    def __init__(self, root: Path, program: Program, port: int) -> None:
        self.program = program
        self.port = port
        self.folder = root / program.name
        self.work = self.folder / "work"
        self.agent = self.folder / "agent"
        self.sessions = self.folder / "sessions"
        for folder in (self.work, self.agent, self.sessions, self.folder / ".tau"):
            folder.mkdir(parents=True, exist_ok=True)
        models = json.dumps({"providers": {"bench": _provider(port)}})
        (self.agent / "models.json").write_text(models)
        (self.agent / "models.yml").write_text(models)
        (self.folder / ".tau" / "providers.json").write_text(json.dumps(_tau_providers(port)))
        launch = LAUNCHES.get(program.kind)
        self._launch = launch(self.folder, port) if launch else None

    def start(self, *more: str, dialect: str = "pi-delta") -> Agent:
        """Start the program; `dialect` applies to Ludolf only."""
        words = [*self.words(dialect), *more]
        agent = OTHERS.get(self.program.kind, Agent)
        return agent(words, self.env(), self.work, settles=self.settles(dialect))

    def words(self, dialect: str) -> list[str]:
        """Return the command line; `acp` and `serve` are modes of Ludolf, `terminal` also of pi."""
        return [*self.program.command, *self.arguments(dialect)]

    def ready(self, *more: str, dialect: str = "pi-delta") -> Agent:
        """Start the program and wait until a session is ready."""
        agent = self.start(*more, dialect=dialect)
        try:
            agent.greet()
            agent.open_session()
        except BaseException:
            agent.kill()
            agent.close()
            raise
        return agent

    def settles(self, dialect: str) -> bool:
        if self.program.kind == "ludolf":
            return dialect in ("pi", "pi-delta")
        return self.program.kind in ("pi", "tau") and not (
            self.program.kind == "pi" and _numbers(self.program.version) < (0, 80)
        )

    def env(self) -> dict[str, str]:
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        env |= {
            "HOME": str(self.folder),
            "PI_CODING_AGENT_DIR": str(self.agent),
            "PI_OFFLINE": "1",
            "PI_SKIP_VERSION_CHECK": "1",
            "PI_TELEMETRY": "0",
            "BENCH_KEY": "none",
            "no_proxy": "127.0.0.1,localhost",
            "NO_PROXY": "127.0.0.1,localhost",
        }
        if self.program.kind not in ("ludolf", "pi"):  # these ask for catalogs of models
            env |= OFFLINE
        if self._launch is not None:
            env |= self._launch.env
        if self.program.kind == "ludolf":
            env |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "LUDOLF_LOCAL_SERVERS": "0"}
        return env

    def arguments(self, dialect: str) -> list[str]:
        """Return the words after the command."""
        model = ["--provider", "bench", "--model", "bench"]
        session = ["--session-dir", str(self.sessions), "--thinking", "low"]
        match self.program.kind:
            case "ludolf" if dialect == "acp":
                return ["--mode", "acp", *model, *session]
            case "ludolf" if dialect == "serve":
                return ["serve", *model, *session]
            case "ludolf" | "pi" if dialect == "terminal":
                return [*model, *session]
            case "ludolf":
                return ["--mode", "rpc", *model, *session, "--rpc-dialect", dialect]
            case "pi":
                return ["--mode", "rpc", *model, *session]
            case "omp":
                more = ["--model", "bench/bench", "--auto-approve", "--no-title"]
                return ["--mode", "rpc", *session, *more]
            case "tau":
                return ["--mode", "rpc", *model, "--no-extensions"]
            case _:
                assert self._launch is not None
                return list(self._launch.words)


def _provider(port: int) -> Mapping[str, Any]:
    model = {
        "id": "bench",
        "name": "bench",
        "reasoning": True,
        "input": ["text", "image"],
        "contextWindow": _WINDOW,
        "maxTokens": 32000,
        "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
    }
    address = f"http://127.0.0.1:{port}"
    return {"baseUrl": address, "api": "anthropic-messages", "apiKey": "none", "models": [model]}


def _tau_providers(port: int) -> Mapping[str, Any]:
    provider = {
        "type": "anthropic",
        "name": "bench",
        "base_url": f"http://127.0.0.1:{port}",
        "api_key_env": "BENCH_KEY",
        "models": ["bench"],
        "default_model": "bench",
        "context_windows": {"bench": _WINDOW},
    }
    return {"default_provider": "bench", "providers": [provider]}
