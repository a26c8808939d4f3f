"""Start options, from the command line or from Python."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.ai.messages import ThinkingLevel

if TYPE_CHECKING:
    from ludolf.ai.gate import RequestGate
    from ludolf.base.trace_context import TraceContext


class ChosenOptions(msgspec.Struct, kw_only=True):
    """Options of one session, which a client of a server can choose too.

    An unset one is taken from the settings, else the default.
    """

    provider: str | None = None
    model: str | None = None
    models: tuple[str, ...] = ()
    api_key: str | None = None
    thinking: ThinkingLevel | None = None
    # sessions
    session_id: str | None = None
    fork: str | None = None
    session_dir: str | None = None
    no_session: bool = False
    name: str | None = None
    # tools
    tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    no_builtin_tools: bool = False
    no_tools: bool = False
    # resources
    extensions: tuple[str, ...] = ()
    no_extensions: bool = False
    skills: tuple[str, ...] = ()
    no_skills: bool = False
    prompt_templates: tuple[str, ...] = ()
    no_prompt_templates: bool = False
    no_context_files: bool = False
    mcp_config: tuple[str, ...] = ()
    no_mcp: bool = False
    system_prompt: str | None = None
    append_system_prompt: tuple[str, ...] = ()
    approve: bool | None = None
    # safety
    approval: str | None = None
    sandbox: str | None = None
    sandbox_network: str | None = None
    mask_secrets: bool = False
    # flags for extensions
    flags: dict[str, str | bool] = {}
    # recording and replay of model traffic
    record: str | None = None
    replay: str | None = None
    replay_strict: bool = False
    replay_speed: float | None = None
    # limits of one prompt
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None


class Options(ChosenOptions, kw_only=True):
    """Start options, of which a server has some itself or as other parameters of `open`."""

    cwd: Path
    # of this session: its keys, folders, proxies, tools and processes see no other environment
    environ: Mapping[str, str] = msgspec.field(default_factory=lambda: os.environ)
    continue_last: bool = False
    session: str | None = None
    # the approval mode if neither `approval` nor the user's settings choose one
    default_approval: str | None = None
    # OpenTelemetry: on, off, or from Python the provider to report to; None: as the settings say
    telemetry: Any = None
    # the trace context of prompts that carry none
    trace: "TraceContext | None" = None
    # from Python only: another agent folder, settings without a file, extensions as functions,
    # a gate that requests to the model pass
    agent_dir: Path | None = None
    settings: dict[str, Any] | None = None
    factories: tuple[Callable[..., Any], ...] = ()
    gate: "RequestGate | None" = None
