"""The checks of `ludolf doctor`: each yields findings, and none prints a key."""

import asyncio
import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import ludolf
from ludolf.ai.registry import API_NAMES
from ludolf.base import ConfigError, LudolfError, Value
from ludolf.base.near import did_you_mean
from ludolf.base.programs import find_program
from ludolf.config.auth.keyring import Keyring
from ludolf.config.auth.status import auth_status
from ludolf.config.models.registry import LOCAL, ModelRegistry
from ludolf.config.settings.files import exposure
from ludolf.config.settings.home import Home, custom_session_dir
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import SettingsFiles
from ludolf.config.settings.trust import guarded_paths, trusted_settings

EXTRAS = {
    "azure": "azure.identity",
    "bedrock": "botocore",
    "local": "xllamacpp",
    "vertex": "google.auth",
}


class Finding(Value):
    """The result of one check; `hint` says what to do next."""

    area: str
    status: Literal["ok", "warning", "error"]
    text: str
    hint: str | None = None


def checks(home: Home, *, online: bool) -> Iterator[Finding]:
    """Yield all findings; only `online` connects to other machines."""
    files, problem = _files(home)
    registry = ModelRegistry(home.models_file, Keyring(home.auth_file, os.environ))
    registry.local_servers = files.current.local_servers
    yield from _program()
    yield from _home_folder(home)
    yield from _settings(files)
    yield from _project(files, problem)
    yield from _models(registry, files)
    yield from _servers(registry)
    if online:
        yield from _online(registry)
    yield from _mcp(home, files)
    yield from _packages(files)
    yield from _extensions(files)
    yield from _extras()
    yield from _sandbox(home)
    yield from _programs(home)
    yield from _terminal()
    yield from _sessions(home, files)
    yield from _docs()


def _ok(area: str, text: str) -> Finding:
    return Finding(area=area, status="ok", text=text)


def _warning(area: str, text: str, hint: str | None = None) -> Finding:
    return Finding(area=area, status="warning", text=text, hint=hint)


def _error(area: str, text: str, hint: str | None = None) -> Finding:
    return Finding(area=area, status="error", text=text, hint=hint)


# ---------------------------------------------------------------- installation


def _program() -> Iterator[Finding]:
    yield _ok("ludolf", f"{ludolf.__version__}, {_install_kind()} in {sys.prefix}")
    yield _ok("python", f"{platform.python_version()} at {sys.executable}")
    system = platform.platform()
    if sys.platform.startswith("linux"):
        yield _ok("platform", system)
    else:
        yield _warning("platform", f"{system}: Ludolf is tested on Linux only")


def _install_kind() -> str:
    try:
        origin = distribution("ludolf").read_text("direct_url.json") or ""
    except PackageNotFoundError:
        return "run from its source folder, not installed,"
    if '"editable"' in origin:
        return "editable install"
    folders = Path(sys.prefix).parts
    if "pipx" in folders:
        return "pipx install"
    if "uv" in folders and "tools" in folders:
        return "uv tool install"
    virtual = sys.prefix != sys.base_prefix
    return "install in a virtual environment" if virtual else "install"


def _extras() -> Iterator[Finding]:
    for extra, module in EXTRAS.items():
        try:
            found = find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        how = "installed" if found else f"not installed (optional): pip install 'ludolf[{extra}]'"
        yield _ok("extra", f"{extra}: {how}")


def _programs(home: Home) -> Iterator[Finding]:
    from ludolf.tools.ripgrep import ripgrep_path

    effects = {"bash": "commands run in sh", "git": "models cannot use git"}
    for name, effect in effects.items():
        path = find_program(name, os.environ.get("PATH", ""))
        yield (
            _ok("tool", f"{name}: {path}")
            if path
            else _warning("tool", f"{name} was not found: {effect}", f"Install {name}.")
        )
    path = ripgrep_path(home.cwd, os.environ.get("PATH", ""))
    if path:
        yield _ok("tool", f"rg: {path}")
    else:
        yield _warning("tool", "rg was not found: searches are slower", "Install ripgrep.")


def _docs() -> Iterator[Finding]:
    from ludolf.config.resources.system_prompt import docs_folder

    folder = docs_folder(os.environ)
    if folder.is_dir():
        yield _ok("docs", str(folder))
    else:
        yield _warning("docs", f"{folder} does not exist", "Read the docs in the repository.")


def _terminal() -> Iterator[Finding]:
    encoding = (sys.stdout.encoding or "").lower()
    size = shutil.get_terminal_size()
    where = f"{os.environ.get('TERM', 'unknown')}, {size.columns}x{size.lines}"
    text = where if sys.stdout.isatty() else "stdout is not a terminal"
    if encoding.replace("-", "") == "utf8":
        yield _ok("terminal", f"{text}, {encoding}")
    else:
        yield _warning("terminal", f"{text}, {encoding}", "Set LANG to a UTF-8 locale.")


# ---------------------------------------------------------------- configuration


def _home_folder(home: Home) -> Iterator[Finding]:
    folder = home.agent
    if not folder.exists():
        yield _ok("home", f"{folder} does not exist yet; Ludolf creates it when it is needed")
        return
    if not folder.is_dir():
        yield _error("home", f"{folder} is not a folder", "Move it, or set LUDOLF_DIR.")
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield _error("home", f"{folder} is not writable (mode {mode:04o})", f"chmod u+rwx {folder}")
    elif mode & (stat.S_IWGRP | stat.S_IWOTH):
        text = f"Other users can write to {folder} (mode {mode:04o})"
        yield _warning("home", text, f"chmod go-w {folder}")
    else:
        yield _ok("home", f"{folder} (mode {mode:04o})")


def _settings(files: SettingsFiles) -> Iterator[Finding]:
    from ludolf.config.settings.approval_rules import read_approvals
    from ludolf.config.settings.safety_settings import read_sandbox, read_secrets

    errors = list(files.doubts)
    try:
        read_approvals(files, None)
        read_sandbox(files, Options(cwd=files.home.cwd))
        read_secrets(files, Options(cwd=files.home.cwd))
    except ConfigError as error:
        errors.append(str(error))
    for text in errors:
        yield _error("settings", text, "Ludolf does not start until this is corrected.")
    for text in files.warnings:
        # The command refuses to change a file that is not valid JSON.
        by_hand = text.startswith("Invalid settings file")
        hint = "Edit the file." if by_hand else "Correct it with `ludolf settings set`."
        yield _warning("settings", text, hint)
    for text in files.remarks:
        yield _warning("settings", text, "Remove the key with `ludolf settings unset`.")
    if not errors and not files.warnings and not files.remarks:
        yield _ok("settings", str(files.home.settings_file))


def _files(home: Home) -> tuple[SettingsFiles, str | None]:
    """Return the settings in effect, and why trust could not be decided."""
    try:
        return trusted_settings(home), None
    except ConfigError as error:
        return SettingsFiles(home), str(error)


def _project(files: SettingsFiles, problem: str | None) -> Iterator[Finding]:
    home = files.home
    if problem:
        yield _error("trust", problem, f"Correct {home.trust_file}, or remove it.")
    elif files.trusted:
        yield _ok("trust", f"{home.cwd} is trusted")
    elif not guarded_paths(home):
        yield _ok("trust", f"{home.cwd} has nothing that needs trust")
    else:
        text = f"{home.cwd} is not trusted: its settings and resources are ignored"
        yield _warning("trust", text, "Look at it and trust it with `ludolf trust`.")


def _sessions(home: Home, files: SettingsFiles) -> Iterator[Finding]:
    custom = custom_session_dir(home, os.environ, files.current.session_dir)
    folder = custom or home.agent / "sessions"
    paths = [path for path in folder.rglob("*.jsonl") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in paths) / 1e6
    yield _ok("sessions", f"{folder}: {len(paths)} files, {size:.1f} MB")
    exposed = [path for path in paths if exposure(path)]
    if exposed:
        text = f"Other users can read {len(exposed)} session files, such as {exposed[0]}"
        yield _warning("sessions", text, f"chmod -R go= {folder}")


def _mcp(home: Home, files: SettingsFiles) -> Iterator[Finding]:
    """Check the entries of MCP servers; no server starts and no command runs."""
    from ludolf.cli.subcommands.mcp_list import entry_problem
    from ludolf.config.mcp.files import read_mcp_entries

    found = read_mcp_entries(home, trusted=files.trusted)
    for text in found.warnings:
        yield _warning("mcp", text, "Correct the file (docs/mcp.md).")
    for entry in found.entries.values():
        problem = entry_problem(entry, home) if entry.enabled else None
        if problem is None:
            state = "valid" if entry.enabled else "disabled"
            yield _ok("mcp", f"{entry.name} ({entry.transport}, {entry.source}): {state}")
        else:
            yield _warning("mcp", f"{entry.name}: {problem}", f"Correct it in {entry.path}.")


def _packages(files: SettingsFiles) -> Iterator[Finding]:
    from ludolf.config.packages.contents import configured_packages

    found = configured_packages(files.home, files)
    for package in found.packages:
        if package.complaint() is None:
            version = f" {package.version}" if package.version else ""
            yield _ok("packages", f"{package.entry.source}{version}")
    for text in found.warnings:
        yield _warning("packages", text, "`ludolf list` shows all packages.")


def _extensions(files: SettingsFiles) -> Iterator[Finding]:
    """Compile the extensions; their code does not run."""
    from ludolf.extensions.loader import find_extensions

    found = find_extensions(files.home, files, scripts=files.current.script_extensions)
    if scripts := [origin.path for origin in found.origins if origin.script]:
        yield from _scripts(scripts, files)
    for origin in found.origins:
        if origin.script:
            continue
        problem = _syntax_problem(origin.path)
        if problem is None:
            yield _ok("extension", str(origin.path))
        else:
            text = f"{origin.path} does not load: {problem}"
            yield _error("extension", text, "Correct the file, or remove it.")


def _scripts(paths: list[Path], files: SettingsFiles) -> Iterator[Finding]:
    """Look for the Node that runs extensions in JavaScript and TypeScript."""
    from ludolf.engine.features.script_extensions.node import NoNode, find_node

    command = files.current.node_command
    try:
        node = asyncio.run(find_node(files.home, os.environ, command))
    except NoNode as error:
        for path in paths:
            yield _warning("extension", f"{path} does not run: {error}", "Install Node.")
        return
    for path in paths:
        yield _ok("extension", f"{path} (run by {' '.join(node.words)})")


def _syntax_problem(path: Path) -> str | None:
    from ludolf.extensions.loader import CannotLoad, check_packages

    try:
        check_packages(path)
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        return str(error.strerror)
    except (CannotLoad, SyntaxError, ValueError) as error:
        return str(error)
    return None


# ---------------------------------------------------------------- models


def _models(registry: ModelRegistry, files: SettingsFiles) -> Iterator[Finding]:
    keyring, path = registry.keyring, files.home.models_file
    statuses = auth_status(registry)
    registry.available()  # builds the models, which finds mistakes in models.json
    for text in registry.errors:
        yield _error("models", text, f"Correct {path}; `ludolf models schema` prints its schema.")
    if not registry.errors:
        yield _ok("models", str(path) if path.exists() else f"{path} does not exist (optional)")
    for text in (*keyring.warnings, *keyring.resolver.warnings, *registry.warnings):
        yield _warning("keys", text)
    exposed = exposure(keyring.path)
    if exposed:
        yield _warning("keys", exposed)
    for status in statuses:
        names = f" ({', '.join(status.variables)})" if status.variables else ""
        text = f"{status.provider}: {status.kind} from {status.origin}{names}"
        hint = f"Log in again: ludolf auth login {status.provider}"
        yield _ok("provider", text) if status.usable else _warning("provider", text, hint)
    if not statuses:
        hint = "Set a key variable or run `ludolf auth login`."
        yield _warning("provider", "No provider has credentials", hint)
    yield from _apis(registry)
    yield from _default_model(registry, files)


def _apis(registry: ModelRegistry) -> Iterator[Finding]:
    """Check the APIs that models.json names; one that is not built in may be an extension's."""
    known = set(API_NAMES)
    for provider in registry.providers():
        entry = registry.entry(provider)
        if entry is None:
            continue
        named = {entry.api, *(model.api for model in entry.models)} - {None}
        for api in sorted(str(name) for name in named - known):
            text = f'{provider}: unknown API "{api}".{did_you_mean(api, known)}'
            hint = f"Correct it in {registry.path}, unless an extension provides this API."
            yield _warning("models", text, hint)


def _default_model(registry: ModelRegistry, files: SettingsFiles) -> Iterator[Finding]:
    provider, name = files.current.default_provider, files.current.default_model
    if not provider or not name or provider in LOCAL:
        return
    model = registry.find(provider, name)
    if model is None:
        hint = "Choose one of `ludolf models` with `ludolf settings set defaultModel`."
        yield _warning("model", f"The default model {provider}/{name} does not exist", hint)
    elif not registry.admits(model):
        hint = f"ludolf auth login {provider}"
        yield _warning("model", f"The default model {model.key} has no credentials", hint)
    else:
        yield _ok("model", f"{model.key} is the default")


def _servers(registry: ModelRegistry) -> Iterator[Finding]:
    """Check the model servers on this machine, found or configured."""
    from ludolf.ai.local.servers import ServerAddress, look_at, someone_listens

    near = [place for place in registry.local.places() if place.near]
    for server in asyncio.run(look_at([place for place in near if someone_listens(place)])):
        yield _ok("server", f"{server.provider} at {server.url}: {len(server.models)} models")
    for provider in registry.providers():
        entry = registry.entry(provider)
        if entry is None or not entry.base_url or provider in LOCAL:
            continue
        place = ServerAddress(url=entry.base_url)
        if place.near and someone_listens(place):
            yield _ok("server", f"{provider} listens at {entry.base_url}")
        elif place.near:
            text = f"{provider}: no server listens at {entry.base_url}"
            yield _warning("server", text, "Start it, or correct its address in models.json.")


def _online(registry: ModelRegistry) -> Iterator[Finding]:
    from ludolf.cli.subcommands.models_refresh import ask_providers

    try:
        reports = ask_providers(registry)
    except LudolfError as error:
        yield _error("online", str(error))
        return
    for report in reports:
        if report.problem:
            hint = f"Check its key with `ludolf auth status {report.provider}`, and the network."
            yield _error("online", f"{report.provider}: {report.problem}", hint)
        else:
            yield _ok("online", f"{report.provider} answers")
    if not reports:
        yield _warning("online", "No provider with credentials offers a list of models to ask for")


# ---------------------------------------------------------------- sandbox


def _sandbox(home: Home) -> Iterator[Finding]:
    from ludolf.tools.sandbox.guard import NoSandbox
    from ludolf.tools.sandbox.policy import Ground
    from ludolf.tools.sandbox.sandbox import Sandbox

    ground = Ground(
        mode="read-only", network=True, home=home.user, agent=home.agent, environ=os.environ
    )
    reasons: dict[str, str] = {}
    kinds: tuple[Literal["bwrap", "landlock"], ...] = ("bwrap", "landlock")
    for kind in kinds:
        try:
            Sandbox(ground, home.cwd, kind).close()
        except (NoSandbox, OSError) as error:
            reasons[kind] = str(error)
        else:
            yield _ok("sandbox", f"{kind} works")
    one_works = len(reasons) < len(kinds)
    for name, reason in reasons.items():
        if one_works:
            yield _ok("sandbox", f"{name} is not available (optional, since another one works)")
        else:
            yield _warning("sandbox", f"{name} is not available: {reason}")
