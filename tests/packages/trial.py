"""Tries a package in one program: load it, prompt, run its commands, let the model call its tools.

There is no network, every dialog is cancelled, and each program has folders of its own.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import dumps, loads
from tests.process.harness import Lab
from tests.process.model_server import Asked, ModelServer
from tests.process.script import Block, Reply, answer

START_SECONDS = 90.0
STEP_SECONDS = 30.0
MOST_COMMANDS = 4
MOST_TOOLS = 3
OWN_TOOLS = frozenset(("read", "bash", "edit", "write", "grep", "find", "ls", "powershell"))
_DIALOGS = ("select", "confirm", "input", "editor")
_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{8,}\b|\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\d+(?:\.\d+)?\s?m?s\b"
    r"|\x1b\[[\d;]*m|\b\d{1,2}:\d\d(?::\d\d)?(?: [AP]M)?\b|\d{10,}"
    r"|\b[a-z]+-[a-z]+-[a-z0-9]{5}\.md\b|(?<=localhost:)\d+|\d+\.\d{3}\b"
    r"|(?<=chunk_id: )\w+|(?<=responseId: )\w+"
)


class Trial(msgspec.Struct, kw_only=True):
    """What one program did with a package."""

    started: bool = False
    commands: list[str] = []
    tools: dict[str, Any] = {}
    notices: list[str] = []
    dialogs: list[str] = []
    errors: list[str] = []
    results: list[str] = []
    stderr: str = ""


class WillingModel(ModelServer):
    """Answers `ok` when its script is used up."""

    def take(self, asked: Asked) -> Reply:
        if not self._replies:
            self.add(answer("ok"))
        return super().take(asked)


async def try_package(
    lab: Lab, program: Sequence[str], env: Mapping[str, str], package: str
) -> Trial:
    """Run all steps; a step that fails or takes too long is reported in `errors`."""
    lab.settings(packages=[package], defaultProvider="chat", defaultModel="large")
    process = await asyncio.create_subprocess_exec(
        *program,
        cwd=lab.work,
        env={**lab.env, **env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )
    run = _Run(lab, process, package)
    errors = asyncio.create_task(run.read_errors())
    reader = asyncio.create_task(run.read())
    try:
        await run.steps()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await asyncio.gather(reader, errors)
    return run.trial


class _Run:
    def __init__(self, lab: Lab, process: asyncio.subprocess.Process, package: str) -> None:
        self.trial = Trial()
        self._package = package
        self._lab = lab
        self._process = process
        self._number = 0
        self._has_ended = False
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._settled = asyncio.Event()

    async def steps(self) -> None:
        found = await self._ask(START_SECONDS, type="get_commands")
        if found is None:
            self.trial.errors.append("no answer to get_commands")
            return
        self.trial.started = True
        own = [one for one in found["commands"] if one["sourceInfo"]["source"] == self._package]
        commands = [one for one in own if one["source"] == "extension"]
        self.trial.commands = sorted(map(self._command, own))
        await self._prompt("hello")
        self._look_at_tools()
        for one in commands[:MOST_COMMANDS]:
            self._mark(f"/{one['name']}")
            await self._prompt(f"/{one['name']}")
        names = [name for name in self.trial.tools if name not in OWN_TOOLS]
        for name in names[:MOST_TOOLS]:
            arguments = dumps(_least(self.trial.tools[name])).decode()
            call = Block(kind="toolcall", pieces=(arguments,), id=f"call-{name}", name=name)
            self._lab.server.add(answer(call))
            await self._prompt(f"use {name}")

    def _command(self, one: Mapping[str, Any]) -> str:
        info = {**one["sourceInfo"], "name": one["name"], "kind": one["source"]}
        # For a folder without a manifest pi names the folder, Ludolf the file in it.
        info["path"] = str(info["path"]).removesuffix("/index.ts")
        names = ("name", "kind", "scope", "origin", "path", "baseDir")
        return " ".join(str(info.get(name)) for name in names).replace(str(self._lab.root), "ROOT")

    def _mark(self, text: str) -> None:
        self.trial.notices.append(f"[{text}]")

    def _look_at_tools(self) -> None:
        if self._lab.server.requests:
            tools = self._lab.server.requests[0].body.get("tools", ())
            text = dumps([tool["function"] for tool in tools]).decode()
            sent = loads(text.replace(str(self._lab.root), "ROOT"))
            self.trial.tools = {tool["name"]: tool["parameters"] for tool in sent}

    async def _prompt(self, text: str) -> None:
        self._settled.clear()
        reply = await self._ask(STEP_SECONDS, type="prompt", message=text)
        if reply is None:
            self.trial.errors.append(f"{text}: no answer")
            await self._ask(STEP_SECONDS, type="abort")
            return
        state = await self._ask(STEP_SECONDS, type="get_state") or {}
        if text.startswith("/") and not state.get("isStreaming"):
            # Notices may follow the answer to a command: a short command gives them time to arrive.
            await self._ask(STEP_SECONDS, type="bash", command="sleep 0.5")
            return
        try:
            async with asyncio.timeout(STEP_SECONDS):
                await self._settled.wait()
                while (await self._ask(STEP_SECONDS, type="get_state") or {}).get("isStreaming"):
                    pass  # the end of a run is announced before the next prompt is accepted
        except TimeoutError:
            self.trial.errors.append(f"{text}: did not end")
            await self._ask(STEP_SECONDS, type="abort")

    async def _ask(self, seconds: float, **command: Any) -> Any:
        if self._has_ended:
            return None
        self._number += 1
        number = str(self._number)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._send({"id": number, **command})
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return None

    async def _send(self, value: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(dumps(value) + b"\n")
            await self._process.stdin.drain()
        except ConnectionError:
            return

    async def read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            await self._take(loads(line))
        self._has_ended = True
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)

    async def read_errors(self) -> None:
        assert self._process.stderr is not None
        data = await self._process.stderr.read()
        self.trial.stderr = data.decode("utf-8", "replace")[-4000:]

    async def _take(self, frame: dict[str, Any]) -> None:
        match frame.get("type"):
            case "response":
                future = self._waiting.get(str(frame.get("id")))
                if not frame.get("success"):
                    self.trial.errors.append(self._plain(f"refused: {frame.get('error')}"))
                if future is not None and not future.done():
                    future.set_result(frame.get("data") or {})
            case "extension_ui_request":
                await self._take_dialog(frame)
            case "extension_error":
                event, error = frame.get("event"), frame.get("error")
                self.trial.errors.append(self._plain(f"{event}: {error}"))
            case "tool_execution_end" if frame.get("toolName") not in OWN_TOOLS:
                self.trial.results.append(self._result(frame))
            case "agent_end" | "agent_settled":
                self._settled.set()

    async def _take_dialog(self, frame: dict[str, Any]) -> None:
        method = frame.get("method")
        if method in _DIALOGS:
            self.trial.dialogs.append(self._plain(f"{method}: {frame.get('title')}"))
            response = {"type": "extension_ui_response", "id": frame["id"], "cancelled": True}
            await self._send(response)
        elif method == "notify":
            self.trial.notices.append(self._plain(str(frame.get("message"))))

    def _result(self, frame: dict[str, Any]) -> str:
        content = (frame.get("result") or {}).get("content") or [{}]
        text = str(content[0].get("text", content[0].get("type")))[:300]
        state = "error" if frame.get("isError") else "ok"
        return self._plain(f"{frame.get('toolName')} {state}: {text}")

    def _plain(self, text: str) -> str:
        return _VARYING.sub("…", text.replace(str(self._lab.root), "ROOT"))


def _least(schema: Any) -> Any:
    """The simplest value that a schema allows."""
    if not isinstance(schema, dict):
        return "x"
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return _least(schema[key][0])
    match schema.get("type"):
        case "object":
            required, known = schema.get("required", ()), schema.get("properties", {})
            return {name: _least(known.get(name)) for name in required}
        case "array":
            return [_least(schema.get("items"))] if schema.get("minItems") else []
        case "number" | "integer":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "x"


def link_packages(lab: Lab, agent: Path) -> None:
    """Use the packages and the loader that were installed for the trial."""
    for name in ("npm", "ludolf"):
        (lab.agent / name).symlink_to(agent / name)
