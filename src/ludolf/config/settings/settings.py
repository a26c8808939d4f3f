"""settings.json of the user and of the trusted project: merged and validated key by key."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ludolf.ai.access import Patience
from ludolf.ai.http.proxy import use_proxy
from ludolf.ai.messages import ThinkingLevel
from ludolf.base import ConfigError, Value
from ludolf.base.project_files import Reader
from ludolf.config.settings.files import broken_link, read_object, read_text, replace_text
from ludolf.config.settings.home import Home, reader_of

Count = Annotated[int, msgspec.Meta(ge=0)]
_QueueMode = Literal["all", "one-at-a-time"]
GLOBAL_ONLY = (
    *("defaultProjectTrust", "httpProxy", "cacheWarming", "passKeys", "mcp", "acp"),
    *("theme", "terminal", "telemetry"),
)
_PROJECT_TELEMETRY = (
    "The setting telemetry in {path} is ignored: only the user's own settings choose where data is "
    "sent."
)
# Settings of pi that are validated and kept, but not used. docs/migrating-from-pi.md lists them.
WITHOUT_EFFECT = (
    "branchSummary.skipPrompt",
    "cacheWarming",
    "retry.provider.maxRetries",
    "transport",
    "websocketConnectTimeoutMs",
)


class TokenLimits(Value):
    reserve_tokens: Count | None = None
    keep_recent_tokens: Count | None = None


class CompactionOptions(Value):
    enabled: bool = True
    reserve_tokens: Count = 16384
    keep_recent_tokens: Count = 20000
    model_overrides: dict[str, TokenLimits] = msgspec.field(default_factory=dict)

    def limits(self, model_key: str) -> tuple[int, int]:
        """Return the tokens to reserve and to keep for the model `provider/id`."""
        own = self.model_overrides.get(model_key, TokenLimits())
        reserve, keep = own.reserve_tokens, own.keep_recent_tokens
        return (
            self.reserve_tokens if reserve is None else reserve,
            self.keep_recent_tokens if keep is None else keep,
        )


class BranchSummaryOptions(Value):
    reserve_tokens: Count = 16384
    skip_prompt: bool = False


class ProviderRetry(Value):
    timeout_ms: Count | None = None
    max_retries: Count = 0
    max_retry_delay_ms: Count = 60_000


class Retry(Value):
    enabled: bool = True
    max_retries: Count = 3
    base_delay_ms: Count = 2000
    max_agent_delay_ms: Count = 60_000
    # Random part of a delay, so that clients that failed together do not retry together.
    jitter: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.2
    provider: ProviderRetry = ProviderRetry()

    def delay_ms(self, attempt: int, asked: float | None = None) -> int:
        """Return the delay before an attempt, at least the `asked` seconds of the server."""
        from random import uniform

        longest = self.max_agent_delay_ms
        plain: int = min(self.base_delay_ms * 2 ** (attempt - 1), longest)
        spread = round(plain * uniform(1 - self.jitter, 1 + self.jitter))
        return max(min(spread, longest), int((asked or 0) * 1000))

    def is_too_long(self, asked: float | None) -> bool:
        """Return whether the server asks for a longer delay than the settings allow."""
        limit = self.provider.max_retry_delay_ms
        return bool(limit and asked and asked * 1000 > limit)


class Images(Value):
    auto_resize: bool = True
    block_images: bool = False


class ThinkingBudgets(Value):
    """Thinking tokens by level. None: the default of the provider."""

    minimal: Count | None = None
    low: Count | None = None
    medium: Count | None = None
    high: Count | None = None


class Todo(Value):
    """The to-do list. None: the dialect decides; dialects of pi have no todo tool by default."""

    enabled: bool | None = None
    reminders: bool | None = None
    reminders_max: Count = 3


class TaskOptions(Value):
    # Seconds until completed tasks are removed from the list; below zero they stay.
    todo_clear_delay: float = 60


class AgentTasks(Value):
    """Subagents. `enabled` None: the dialect decides whether the model may start some."""

    enabled: bool | None = None
    # Number of subagents that run concurrently; 0: unlimited.
    max_concurrency: Count = 32
    # Nesting depth of subagents; 0: none, below zero: unlimited.
    max_recursion_depth: int = 2
    disabled_agents: tuple[str, ...] = ()
    # Model by kind of subagent, as `provider/id` or `provider/id:level`.
    agent_model_overrides: dict[str, str] = msgspec.field(default_factory=dict)


class Ttsr(Value):
    """Stream rules: reaction to an answer that violates one."""

    enabled: bool = True
    context_mode: Literal["discard", "keep"] = "discard"
    interrupt_mode: Literal["always", "prose-only", "tool-only", "never"] = "always"
    repeat_mode: Literal["once", "after-gap"] = "once"
    repeat_gap: Count = 10
    disabled_rules: tuple[str, ...] = ()


class McpOptions(Value):
    """Servers of the Model Context Protocol."""

    # Milliseconds that the first prompt waits for servers that were never seen before.
    first_wait_ms: Count = 5000
    sampling: Literal["off", "ask", "allow"] = "off"


class AcpOptions(Value):
    """Clients of the Agent Client Protocol."""

    # Where commands of the model run: in our own processes, or in a terminal of the client.
    terminal: Literal["own", "client"] = "own"


class TerminalOptions(Value):
    """The terminal program. `on_hangup`: what happens to a run when the terminal is closed."""

    images: Literal["auto", "kitty", "iterm2", "off"] = "auto"
    notify: Literal["off", "bell", "osc9"] = "off"
    on_hangup: Literal["finish", "abort"] = "finish"
    show_thinking: bool = False


class TelemetryContent(Value):
    """Content that telemetry exports, besides numbers and names."""

    prompts: bool = False
    answers: bool = False
    tools: bool = False

    @property
    def any(self) -> bool:
        return self.prompts or self.answers or self.tools


class TelemetryOptions(Value):
    """OpenTelemetry. `enabled` None: on if `endpoint` or the variables `OTEL_*` ask for it."""

    enabled: bool | None = None
    endpoint: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    content: TelemetryContent | None = None
    # Where the trace context is sent besides tools.
    propagate: tuple[Literal["models"], ...] = ()


class Settings(Value):
    """All keys that Ludolf reads. Other keys stay in the file unchanged."""

    default_provider: str | None = None
    default_model: str | None = None
    default_thinking_level: ThinkingLevel | None = None
    model_thinking_levels: dict[str, ThinkingLevel] = msgspec.field(default_factory=dict)
    thinking_budgets: ThinkingBudgets = ThinkingBudgets()
    enabled_models: tuple[str, ...] | None = None
    steering_mode: _QueueMode = "one-at-a-time"
    follow_up_mode: _QueueMode = "one-at-a-time"
    # None: the dialect decides.
    interrupt_mode: Literal["immediate", "wait"] | None = None
    todo: Todo = Todo()
    tasks: TaskOptions = TaskOptions()
    task: AgentTasks = AgentTasks()
    ttsr: Ttsr = Ttsr()
    mcp: McpOptions = McpOptions()
    acp: AcpOptions = AcpOptions()
    default_tools: tuple[str, ...] | None = None
    default_project_trust: Literal["ask", "always", "never"] = "ask"
    session_dir: str | None = None
    # When a session file is synced: at the end of a run, after each entry, never.
    sync: Literal["turn", "always", "off"] = "turn"
    compaction: CompactionOptions = CompactionOptions()
    branch_summary: BranchSummaryOptions = BranchSummaryOptions()
    retry: Retry = Retry()
    transport: Literal["auto", "sse", "websocket", "websocket-cached"] = "auto"
    http_proxy: str | None = None
    # Timeouts of a model: until its first event; between two events (None: as for the first, else
    # three minutes); for the connection. 0: no limit.
    http_idle_timeout_ms: Count | Literal["disabled"] | None = None
    stream_idle_timeout_ms: Count | None = None
    connect_timeout_ms: Count = 30_000
    websocket_connect_timeout_ms: Count = 15_000
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    npm_command: tuple[str, ...] = ("npm",)
    images: Images = Images()
    cache_warming: Literal["off", "streaming", "idle"] = "streaming"
    packages: tuple[str | dict[str, Any], ...] = ()
    extensions: tuple[str, ...] = ()
    # Whether extensions in JavaScript and TypeScript are run, and by which Node.
    script_extensions: bool = True
    node_command: str | None = None
    # Timeout of extension handlers, for all events or by event name; 0: no limit.
    handler_timeout_ms: Count | dict[str, Count] = 0
    skills: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    themes: tuple[str, ...] = ()
    # `auto`, `dark`, `light`, or the name of a theme file.
    theme: str = "auto"
    terminal: TerminalOptions = TerminalOptions()
    telemetry: TelemetryOptions = TelemetryOptions()
    enable_skill_commands: bool = True
    # Whether local model servers are scanned.
    local_servers: bool = True
    # Names of key variables that tools may see.
    pass_keys: tuple[str, ...] = ()
    # Parsed strictly where they are used: a typo must not switch off a safety feature.
    approval: Any = None
    sandbox: Any = None
    secrets: Any = None

    @property
    def patience(self) -> Patience:
        """Timeouts of model requests."""
        idle = self.http_idle_timeout_ms
        first = 0 if isinstance(idle, str) else idle
        own = self.retry.provider.timeout_ms
        first = first if own is None else own
        between = first if self.stream_idle_timeout_ms is None else self.stream_idle_timeout_ms
        usual = Patience()
        return Patience(
            connect=self.connect_timeout_ms / 1000,
            first=usual.first if first is None else first / 1000,
            between=usual.between if between is None else between / 1000,
        )


class SettingsFiles:
    """Settings of one session: `current` is merged, `user` and `project` are single files.

    An invalid file is reported in `warnings`, counts as empty and is never written. `doubts` are
    reasons why a safety setting may be present but could not be parsed. `remarks` name keys that
    look misspelt.
    """

    def __init__(
        self, home: Home, *, trusted: bool = False, given: Mapping[str, Any] | None = None
    ) -> None:
        """With `given` settings, no file is read or written."""
        self.home = home
        self.trusted = trusted
        self.given = given
        self.warnings: list[str] = []
        self.doubts: list[str] = []
        self.remarks: list[str] = []
        self._user: dict[str, Any] = {}
        self._project: dict[str, Any] = {}
        self.overrides: dict[str, Any] = {}
        self.load()

    def load(self) -> None:
        """Read both files again."""
        self.warnings, self.doubts, self.remarks = [], [], []
        if self.given is not None:
            self._look_for_doubts(self.given, None)
            migrated = migrate(dict(self.given))
            self._look_for_mistakes(migrated, "settings")
            self._user, errors = keep_sound(migrated, Settings)
            self.warnings += [f"Invalid setting: {text}" for text in errors]
            self._merge()
            return
        self._user = self._read(self.home.settings_file)
        if self.trusted:
            reader = reader_of(self.home, self.home.cwd)
            project = self._read(self.home.project_settings_file, reader)
            if "telemetry" in project:
                self.warnings.append(_PROJECT_TELEMETRY.format(path=self.project_name))
            self._project = {k: v for k, v in project.items() if k not in GLOBAL_ONLY}
        self._merge()

    @property
    def user_name(self) -> str:
        """Source of the user's settings, for messages."""
        return str(self.home.settings_file) if self.given is None else "the settings given"

    @property
    def project_name(self) -> str:
        return str(self.home.project_settings_file)

    def stated(self, path: Sequence[str]) -> tuple[Literal["user", "project"], Any] | None:
        """Return the file that decides a setting, and its value there; None for the default."""
        for scope, raw in (("project", self._project), ("user", self._user)):
            value: Any = raw
            for name in path:
                value = value.get(name) if isinstance(value, dict) else None
            if value is not None:
                return scope, value  # type: ignore[return-value]  # one of the two above
        return None

    def override(self, changes: Mapping[str, Any]) -> None:
        """Apply changes to the merged settings; nothing is written."""
        lay_over(self.overrides, changes)
        self._merge()

    def save(self, changes: Mapping[str, Any]) -> str | None:
        """Apply changes and write only them to the user's file; None removes a key.

        Returns an error text if the file could not be written, else None.
        """
        lay_over(self._user, changes)
        self._merge()
        if self.given is not None:
            return None
        path = self.home.settings_file
        from ludolf.config.settings.json_edit import edited
        from ludolf.config.settings.lock import settings_lock

        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with settings_lock(path) as lock:
                read_object(path)  # fails if the file cannot be changed
                text = edited(read_text(path) or "", changes)
                lock.check()
                replace_text(path, text)
        except (ConfigError, OSError) as error:
            return f"Settings were not saved to {path}: {error}"
        return None

    def _read(self, path: Path, reader: Reader | None = None) -> dict[str, Any]:
        try:
            raw = read_object(path, reader=reader)
        except ConfigError as error:
            from ludolf.config.settings.doubts import doubt_of_invalid

            self.warnings.append(f"Invalid settings file {path}: {error}")
            self._doubt(doubt_of_invalid(path, error))
            return {}
        self._look_for_doubts(raw, path)
        migrated = migrate(raw)
        self._look_for_mistakes(migrated, str(path))
        sound, errors = keep_sound(migrated, Settings)
        self.warnings += [f"Invalid setting in {path}: {text}" for text in errors]
        return sound

    def _look_for_mistakes(self, raw: Mapping[str, Any], name: str) -> None:
        if raw:
            from ludolf.config.settings.mistakes import misspelt_keys

            self.remarks += [f"{name}: {text}" for text in misspelt_keys(raw, Settings)]

    def _look_for_doubts(self, raw: Mapping[str, Any], path: Path | None) -> None:
        if path is not None and not raw and not os.path.isfile(path):
            link = broken_link(path)
            if link is not None:
                from ludolf.config.settings.doubts import doubt_of_missing

                self._doubt(doubt_of_missing(path, link))
        names = set(Settings.__struct_encode_fields__)
        if not raw.keys() <= names:
            from ludolf.config.settings.doubts import doubt_of_keys

            self._doubt(doubt_of_keys(raw, names, str(path or self.user_name)))
        if path is not None and not raw.keys().isdisjoint(("approval", "sandbox", "secrets")):
            from ludolf.config.settings.doubts import doubt_of_repeats

            self._doubt(doubt_of_repeats(path))

    def _doubt(self, text: str | None) -> None:
        if text is not None:
            self.doubts.append(text)

    def _merge(self) -> None:
        merged = merge(merge(self._user, self._project), self.overrides)
        self.user = _as_settings(self._user)
        self.project = _as_settings(self._project)
        self.current = _as_settings(merged)
        use_proxy(self.user.http_proxy)


def merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `upper` over `lower`: objects key by key, other values replaced."""
    result = dict(lower)
    for key, value in upper.items():
        old = result.get(key)
        both = isinstance(value, dict) and isinstance(old, dict)
        result[key] = merge(old, value) if both else value  # type: ignore[arg-type]
    return result


def lay_over(raw: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Apply changes in place; None removes a key, an object changes only its keys."""
    for key, value in changes.items():
        if value is None:
            raw.pop(key, None)
        elif isinstance(value, Mapping):
            inner = raw.get(key)
            if not isinstance(inner, dict):
                inner = raw[key] = {}
            lay_over(inner, value)
        else:
            raw[key] = value


def migrate(raw: dict[str, Any]) -> dict[str, Any]:
    """Rename old keys to current ones; an existing current key is kept."""
    new = dict(raw)
    if "queueMode" in new:
        new.setdefault("steeringMode", new.pop("queueMode"))
    if isinstance(new.get("websockets"), bool):
        new.setdefault("transport", "websocket" if new.pop("websockets") else "sse")
    skills = new.get("skills")
    if isinstance(skills, dict):
        new["skills"] = skills.get("customDirectories") or []
        if "enableSkillCommands" in skills:
            new.setdefault("enableSkillCommands", skills["enableSkillCommands"])
    retry = new.get("retry")
    if isinstance(retry, dict) and "maxDelayMs" in retry:
        retry = dict(retry)
        inner = retry.get("provider")
        delay = {"maxRetryDelayMs": retry.pop("maxDelayMs")}
        new["retry"] = {
            **retry,
            "provider": {**delay, **(inner if isinstance(inner, dict) else {})},
        }
    return new


def _as_settings(raw: Mapping[str, Any]) -> Settings:
    # The first conversion resolves the types of all settings, which delays the start.
    return msgspec.convert(raw, Settings) if raw else Settings()


def keep_sound(
    raw: Mapping[str, Any], kind: type[msgspec.Struct], where: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """Return the keys with valid values, and an error text for each other key."""
    sound, errors = {k: v for k, v in raw.items() if v is not None}, []
    if not sound:
        return {}, []
    try:
        msgspec.convert(sound, kind)
        return sound, []
    except msgspec.ValidationError:
        pass
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        if name not in sound:
            continue
        value, group = sound[name], field.type
        if (
            isinstance(value, dict)
            and isinstance(group, type)
            and issubclass(group, msgspec.Struct)
        ):
            sound[name], inner = keep_sound(value, group, f"{where}{name}.")
            errors += inner
            continue
        try:
            msgspec.convert(value, group)
        except msgspec.ValidationError as error:
            from ludolf.config.settings.mistakes import valid_values

            del sound[name]
            errors.append(f"{where}{name}: {error}; the default is used{valid_values(group)}")
    return sound, errors
