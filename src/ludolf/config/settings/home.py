"""Folders of configuration, the environment variables that change them, and their readers."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ludolf.base import ConfigError, user_dir
from ludolf.base.project_files import IsHidden, Reader, project_reader

if TYPE_CHECKING:
    from ludolf.config.settings.options import Options

CONFIG_DIR = ".pi"
# Folders of stream rules in a project.
RULE_FOLDERS = (".pi/rules", ".omp/rules", ".cursor/rules", ".windsurf/rules", ".clinerules")
# The user's own files may be links to any path.
OWN = Reader()
_TRUE = frozenset(("1", "true", "yes"))


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """Folders of one session: the user's agent directory, the project, the user's home."""

    agent: Path
    cwd: Path
    user: Path

    def expand(self, path: str) -> Path:
        """Expand a leading ~ to the user's home directory."""
        return expand(path, {"HOME": str(self.user)})

    @property
    def project(self) -> Path:
        return self.cwd / CONFIG_DIR

    @property
    def settings_file(self) -> Path:
        return self.agent / "settings.json"

    @property
    def project_settings_file(self) -> Path:
        return self.project / "settings.json"

    @property
    def models_file(self) -> Path:
        return self.agent / "models.json"

    @property
    def auth_file(self) -> Path:
        return self.agent / "auth.json"

    @property
    def trust_file(self) -> Path:
        return self.agent / "trust.json"

    @property
    def mcp_file(self) -> Path:
        return self.agent / "mcp.json"

    @property
    def project_mcp_file(self) -> Path:
        return self.project / "mcp.json"

    @property
    def shared_mcp_file(self) -> Path:
        """The project's file of MCP servers that other programs read too."""
        return self.cwd / ".mcp.json"


def current_folder() -> Path:
    """Return the working directory as the user sees it.

    Raises:
        ConfigError: it was removed.
    """
    try:
        return Path(os.getcwd())
    except OSError as error:
        raise ConfigError(f"The working directory is gone: {error.strerror}") from error


def find_home(cwd: Path | None, environ: Mapping[str, str]) -> Home:
    """Return the folders of a session in `cwd`, by default the working directory of the process."""
    user = user_dir(environ)
    place = Path.cwd() if cwd is None else cwd
    return Home(agent=agent_dir(environ), cwd=place, user=user)


def agent_dir(environ: Mapping[str, str]) -> Path:
    """Return $LUDOLF_DIR, else $PI_CODING_AGENT_DIR, else ~/.pi/agent, shared with pi."""
    folder = environ.get("LUDOLF_DIR") or env("CODING_AGENT_DIR", environ)
    if folder:
        return expand(folder, environ).absolute()
    return user_dir(environ) / CONFIG_DIR / "agent"


def session_dir_override(environ: Mapping[str, str]) -> Path | None:
    """Return the session directory of the environment; None if it is not set."""
    folder = env("CODING_AGENT_SESSION_DIR", environ)
    return expand(folder, environ).absolute() if folder else None


def custom_session_dir(
    home: Home, environ: Mapping[str, str], setting: str | None, option: str | None = None
) -> Path | None:
    """Return the session directory of the option, the environment or the setting, if there is one.

    A relative path starts from the working folder.
    """
    custom = option or session_dir_override(environ) or setting
    return (home.cwd / home.expand(str(custom))).absolute() if custom else None


def env(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the variable `LUDOLF_<name>`, else `PI_<name>`; None if unset or empty."""
    return environ.get(f"LUDOLF_{name}") or environ.get(f"PI_{name}") or None


def env_flag(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether the variable is 1, true or yes."""
    return (env(name, environ) or "").strip().lower() in _TRUE


def expand(path: str, environ: Mapping[str, str]) -> Path:
    """Expand a leading ~ to the home directory."""
    if path == "~":
        return user_dir(environ)
    if path.startswith(("~/", "~\\")):
        return user_dir(environ) / path[2:]
    return Path(path)


def project_agents_skills(home: Home) -> Iterator[Path]:
    """Yield `.agents/skills` of the working folder and its parents, up to the repository root.

    The folder of the user's own skills is left out. A path may be missing.
    """
    personal = home.user / ".agents" / "skills"
    for folder in (home.cwd, *home.cwd.parents):
        place = folder / ".agents" / "skills"
        if place != personal:
            yield place
        if (folder / ".git").exists():
            return


def user_rule_folders(home: Home) -> tuple[Path, ...]:
    """Return the user's folders of stream rules."""
    return (home.agent / "rules", home.user / ".omp" / "agent" / "rules")


def has_rules(home: Home) -> bool:
    """Return whether a folder of stream rules exists."""
    folders = (*(home.cwd / name for name in RULE_FOLDERS), *user_rule_folders(home))
    return any(folder.is_dir() for folder in folders)


def mcp_files_exist(home: Home, options: "Options") -> bool:
    """Return whether a file of MCP servers exists or is named; no file is read."""
    if options.no_mcp:
        return False
    files = (home.mcp_file, home.project_mcp_file, home.shared_mcp_file)
    return bool(options.mcp_config) or any(path.exists() for path in files)


_SIGNALS = ("TRACES", "METRICS", "LOGS")
_EXPORTERS = tuple(f"OTEL_{signal}_EXPORTER" for signal in _SIGNALS)
_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    *(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT" for signal in _SIGNALS),
)


def asks_for_telemetry(options: "Options", *, enabled: bool | None, endpoint: str | None) -> bool:
    """Return whether runs are reported; the last two are settings. Nothing is imported for it."""
    environ = options.environ
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    chosen = enabled if options.telemetry is None else options.telemetry
    if chosen is not None:
        return chosen is not False
    if endpoint or any(environ.get(name) for name in _ENDPOINTS):
        return True
    return any(environ.get(name, "none").strip() not in ("", "none") for name in _EXPORTERS)


def has_global_provider() -> bool:
    """Return whether the program has configured OpenTelemetry; nothing is imported for it."""
    module = sys.modules.get("opentelemetry.trace")
    return getattr(module, "_TRACER_PROVIDER", None) is not None


# ---------------------------------------------------------------- readers


def reader_of(home: Home, folder: Path, is_hidden: IsHidden | None = None) -> Reader:
    """Return the reader for files of a project folder; `is_hidden` asks the sandbox."""
    return project_reader(folder, (home.user, home.agent), is_hidden)


def reader_for_named(
    home: Home, place: Path, is_hidden: IsHidden | None = None, *, outside: Reader = OWN
) -> Reader:
    """Return the reader for a path that the user or a trusted project configured.

    A path inside the project is read as a project file; `outside` reads any other path.
    """
    project = reader_of(home, home.cwd, is_hidden)
    roots = (str(project.within), os.path.realpath(home.cwd))
    named = Path(os.path.normpath(home.cwd / place))
    inside = any(os.path.realpath(folder) in roots for folder in (named, *named.parents))
    return project if inside else outside
