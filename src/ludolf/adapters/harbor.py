"""Ludolf as an agent of Harbor: `harbor run --agent-import-path ludolf.adapters.harbor:Ludolf`.

Harbor's own agent for pi reads the session files and the JSON output of Ludolf; only the way to
install and to start the program differs.
"""

import shlex
from typing import Any

try:
    from harbor.agents.installed.base import with_prompt_template
    from harbor.agents.installed.pi import Pi
    from harbor.environments.base import BaseEnvironment
    from harbor.models.agent.context import AgentContext
except ModuleNotFoundError as missing:
    raise ImportError(
        f"{missing}. Harbor is not installed: pip install harbor, with Python 3.12 or newer"
    ) from missing

_PYTHON = "3.13"
_PATH = 'export PATH="$HOME/.local/bin:$PATH"; '
_INSTALL = (
    "set -euo pipefail; " + _PATH + "command -v uv >/dev/null 2>&1"
    " || curl -LsSf https://astral.sh/uv/install.sh | sh; "
)
_FOLDER = "/tmp/harbor-pi-agent"
# Updates repeat what the end of each message has.
_WITHOUT_UPDATES = """grep -v '"type":"message_update"' | stdbuf -oL tee """


class Ludolf(Pi):
    """Runs `ludolf --print --mode json` in the environment of a trial."""

    @staticmethod
    def name() -> str:
        return "ludolf"

    def get_version_command(self) -> str | None:
        return _PATH + "ludolf --version"

    async def install(self, environment: BaseEnvironment) -> None:
        await self.ensure_system_dependencies(environment, ("curl", "bash"))
        package = f"ludolf=={self._version}" if self._version else "ludolf"
        command = f"uv tool install --python {_PYTHON} {shlex.quote(package)} && ludolf --version"
        await self.exec_as_agent(environment, command=_INSTALL + command)

    @with_prompt_template
    async def run(
        self, instruction: str, environment: BaseEnvironment, context: AgentContext
    ) -> None:
        if not self.model_name:
            raise ValueError("Name the model of the agent: --model PROVIDER/ID")
        provider, model_id = self._parse_model_name(self.model_name)
        access = self.model_connection
        models = self._build_custom_models_json(access, model_id)
        await self._configure(environment, models)
        if models is not None:
            (provider,) = models["providers"]
        self._session_usage_start = (
            await self._session_positions(environment) if self._resume else {}
        )
        words = self._words(access.provider or provider if models is None else provider, model_id)
        await self.exec_as_agent(
            environment,
            command=self._command([*words, "--", instruction]),
            env={**access.env, "PI_CODING_AGENT_DIR": _FOLDER},
        )

    async def _configure(self, environment: BaseEnvironment, models: dict[str, Any] | None) -> None:
        await self._ensure_config_dir(environment)
        if models is not None:
            await self._write_custom_models_json(environment, models)
        if self.mcp_servers:
            await self._write_mcp_config(environment)
        skills = self._build_register_skills_command()
        if skills:
            await self.exec_as_agent(environment, command=skills)

    def _words(self, provider: str | None, model_id: str) -> list[str]:
        """Return the program and its options."""
        sessions = self.environment_logs_dir / self._SESSIONS_DIRECTORY
        words = ["ludolf", "--print", "--mode", "json", "--session-dir", str(sessions)]
        if self._resume:
            words.append("--continue")
        if provider is not None:
            words += ["--provider", provider]
        words += ["--model", model_id]
        if self.options.max_turns is not None:
            words += ["--max-turns", str(self.options.max_turns)]
        return [*words, *shlex.split(self.build_cli_flags() or "")]

    def _command(self, words: list[str]) -> str:
        """Return the shell command that runs the program and keeps its output."""
        sessions = self.environment_logs_dir / self._SESSIONS_DIRECTORY
        output = self.environment_logs_dir / self._OUTPUT_FILENAME
        made = f"mkdir -p {shlex.quote(str(sessions))} && "
        kept = f" 2>&1 </dev/null | {_WITHOUT_UPDATES}{shlex.quote(str(output))}"
        return _PATH + made + shlex.join(words) + kept
