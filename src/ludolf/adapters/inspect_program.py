"""The program `ludolf` in the sandbox of a sample, whose requests Inspect answers."""

from itertools import count
from random import randrange
from uuid import uuid4

import anyio
from inspect_ai.agent import AgentState, SandboxAgentBridge, sandbox_agent_bridge
from inspect_ai.util import ExecResult, sandbox

from ludolf.base import dumps

# Each sample has its own port: samples of the sandbox `local` share one machine, also with those of
# other evaluations.
_PORTS = 4000
_FIRST_PORT = 13131
# The exit code by which shells report a program that does not exist.
_NOT_FOUND = 127
# Inspect does not wait until the server of the bridge listens: the program is started again then.
_NOT_LISTENING = "refused the connection"
_STARTS, _PAUSE_SECONDS = 60, 0.25
_numbers = count(randrange(_PORTS))


async def run_program(state: AgentState, tools: tuple[str, ...], cwd: str | None) -> AgentState:
    """Run the program to its end with the messages of a sample.

    Raises:
        RuntimeError: it is not installed in the sandbox, or failed.
    """
    port = _FIRST_PORT + next(_numbers) % _PORTS
    place, folder = sandbox(), f"/tmp/ludolf-{uuid4().hex}"
    system = "\n\n".join(each.text for each in state.messages if each.role == "system")
    prompt = "\n\n".join(each.text for each in state.messages if each.role == "user")
    async with sandbox_agent_bridge(state, port=port) as bridge:
        await place.write_file(f"{folder}/models.json", _models(port))
        argv = ["ludolf", "-p", "--no-session", "--model", "inspect/inspect"]
        argv += ["--tools", ",".join(tools)]
        if system:
            argv += ["--append-system-prompt", system]
        env = {"LUDOLF_DIR": folder}
        result = await _run(bridge, argv, prompt, cwd, env)
        if result.returncode == _NOT_FOUND:
            raise RuntimeError(
                "The program ludolf is not installed in the sandbox. Install it there "
                '(`pip install ludolf`), or use where="inspect".'
            )
        if not result.success:
            raise RuntimeError(f"ludolf failed with code {result.returncode}: {result.stderr}")
    return bridge.state


async def _run(
    bridge: SandboxAgentBridge,
    argv: list[str],
    prompt: str,
    cwd: str | None,
    env: dict[str, str],
) -> ExecResult[str]:
    known = len(bridge.state.messages)
    for _ in range(_STARTS):
        result = await sandbox().exec(argv, input=prompt, cwd=cwd, env=env, timeout_retry=False)
        was_answered = len(bridge.state.messages) > known
        if result.success or was_answered or _NOT_LISTENING not in result.stderr:
            break
        await anyio.sleep(_PAUSE_SECONDS)
    return result


def _models(port: int) -> bytes:
    """Return the models.json of the program: one model behind the bridge."""
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}",
        "api": "anthropic-messages",
        "apiKey": "inspect",
        "models": [{"id": "inspect", "input": ["text", "image"]}],
    }
    return dumps({"providers": {"inspect": provider}})
