"""Project trust: decide whether the settings and resources of a folder may be used."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from ludolf.base import ConfigError
from ludolf.config.settings.files import read_object, write_object
from ludolf.config.settings.home import Home, project_agents_skills
from ludolf.config.settings.settings import SettingsFiles

_GUARDED = (
    "settings.json",
    "extensions",
    "skills",
    "prompts",
    "themes",
    "agents",
    "agent/skills",
    "agent/prompts",
    "agent/extensions",
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
    "mcp.json",
)


_LEFT_ASIDE = (
    "its settings and resources are ignored. Trust it with `ludolf trust`, or for one run with "
    "--approve"
)
TrustState = Literal["trusted", "changed", "refused", "undecided"]


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """The decision, and a notice for the user if resources are ignored."""

    trusted: bool
    notice: str | None = None


def decide_trust(
    home: Home,
    *,
    flag: bool | None = None,
    answer: bool | None = None,
    default: Literal["ask", "always", "never"] = "ask",
) -> Trust:
    """Decide whether this project is trusted.

    Order: the command line's `flag`, an extension's `answer`, the saved decision, the default.
    `ask` means no, since no user can be asked here.
    """
    for verdict in (flag, answer):
        if verdict is not None:
            return Trust(trusted=verdict)
    try:
        saved = saved_decision(home.trust_file, home.cwd)
    except ConfigError as error:
        return Trust(trusted=False, notice=f"Invalid trust file {home.trust_file}: {error}")
    if saved is not None and saved[1]:
        return _judge(home, saved[0])
    if saved is not None or default == "always":
        return Trust(trusted=saved is None)
    if not guarded_paths(home):
        return Trust(trusted=False)
    return Trust(trusted=False, notice=f"{home.cwd} is not trusted: {_LEFT_ASIDE}")


def saved_decision(trust_file: Path, cwd: Path) -> tuple[Path, bool] | None:
    """Return the nearest ancestor of a folder with a stored decision, itself included, and it.

    Raises:
        ConfigError: trust.json is invalid.
    """
    decisions = read_object(trust_file)
    real = Path(os.path.realpath(cwd))
    for folder in (real, *real.parents):
        verdict = decisions.get(str(folder))
        if isinstance(verdict, bool):
            return folder, verdict
    return None


def stored_decisions(home: Home) -> dict[str, bool]:
    """Return all stored decisions by folder.

    Raises:
        ConfigError: trust.json is invalid.
    """
    decisions = read_object(home.trust_file)
    return {folder: verdict for folder, verdict in decisions.items() if isinstance(verdict, bool)}


def trust_state(home: Home) -> TrustState:
    """Return the state of this folder by the stored decisions; stores nothing.

    Raises:
        ConfigError: a file of decisions is invalid, or the code of the folder cannot be checked.
    """
    saved = saved_decision(home.trust_file, home.cwd)
    if saved is None:
        return "undecided"
    if not saved[1]:
        return "refused"
    return "changed" if _has_changed(home, saved[0]) else "trusted"


def trusted_settings(home: Home) -> SettingsFiles:
    """Return the settings that a session here would use; stores nothing.

    Raises:
        ConfigError: as `trust_state`.
    """
    files = SettingsFiles(home)
    state = trust_state(home)
    always = files.user.default_project_trust == "always"
    if state == "trusted" or (state == "undecided" and always):
        return SettingsFiles(home, trusted=True)
    return files


def save_decision(home: Home, *, trusted: bool) -> None:
    """Store a decision for this folder, in the format of pi.

    Raises:
        ConfigError: trust.json is invalid or locked, or the code of the folder cannot be checked.
        OSError: trust.json cannot be written.
    """
    from ludolf.config.settings.executed import digest
    from ludolf.config.settings.lock import settings_lock

    path = home.trust_file
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with settings_lock(path) as lock:
        decisions = read_object(path)
        decisions[os.path.realpath(home.cwd)] = trusted
        lock.check()
        # Digests first: a program that reads the decision must also find the digest of the code.
        _save_record(home, _record(digest(home)) if trusted else None)
        write_object(path, decisions)


def add_imports(home: Home, paths: Iterable[Path]) -> None:
    """Store digests of files that a trusted project imported from outside its extensions.

    Does nothing if this folder has no stored decision, or the files are stored already.

    Raises:
        ConfigError: the file of digests is invalid or locked.
        OSError: the file cannot be written.
    """
    from ludolf.config.settings.executed import digests_of
    from ludolf.config.settings.lock import settings_lock

    folder, own = Path(os.path.realpath(home.cwd)), os.path.realpath(home.project)
    record = _stored_record(home)
    if record is None:
        return
    inside = (path for path in paths if path.is_relative_to(folder))
    fresh = [path for path in inside if not _is_covered(path, own)]
    fresh = [path for path in fresh if str(path) not in record["imports"]]
    if fresh:
        record["imports"] |= digests_of(fresh)
        with settings_lock(home.trust_file):
            _save_record(home, record)


def _is_covered(path: Path, own: str) -> bool:
    """Return whether the digest of the project contains a file; installed packages are left out."""
    from ludolf.config.settings.executed import NEVER_IMPORTED

    return path.is_relative_to(own) and not NEVER_IMPORTED & set(path.relative_to(own).parts)


def _judge(home: Home, folder: Path) -> Trust:
    """Compare the code of the project with its digest from when `folder` was trusted."""
    from ludolf.config.settings.executed import digest

    try:
        changed = _has_changed(home, folder)
        if changed is None:
            return _trust_first_use(home, digest(home))
    except ConfigError as error:
        text = f"{home.cwd} is not trusted, since its code cannot be checked: {error}"
        return Trust(trusted=False, notice=f"{text}; {_LEFT_ASIDE}")
    if not changed:
        return Trust(trusted=True)
    text = f"{home.cwd} has changed since it was trusted: {_LEFT_ASIDE}"
    return Trust(trusted=False, notice=text)


def _has_changed(home: Home, folder: Path) -> bool | None:
    """Return whether the code differs from when `folder` was trusted; None without a digest."""
    from ludolf.config.settings.executed import NOTHING, digest

    record, now = _stored_record(home), digest(home)
    if record is not None:
        return record["digest"] != now or _differ(record["imports"])
    if os.path.realpath(home.cwd) != str(folder) and _stored_record(home, folder):
        # That decision was about the code of another folder.
        return now != NOTHING
    return None


def _trust_first_use(home: Home, now: str) -> Trust:
    """Store the current digest for a decision of pi, which has none."""
    from ludolf.config.settings.lock import settings_lock

    try:
        with settings_lock(home.trust_file):
            _save_record(home, _record(now))
    except (ConfigError, OSError) as error:
        text = f"Changes of {home.cwd} will not be detected: {error}"
        return Trust(trusted=True, notice=text)
    return Trust(trusted=True)


# ---------------------------------------------------------------- digests


def _record(digest: str) -> dict[str, Any]:
    return {"digest": digest, "imports": {}}


def _stored_record(home: Home, folder: Path | None = None) -> dict[str, Any] | None:
    """Return the stored digests of a folder; None if there are none.

    Raises:
        ConfigError: the file is invalid.
    """
    value = read_object(_digests_file(home)).get(os.path.realpath(folder or home.cwd))
    if value is None:
        return None
    if isinstance(value, dict) and isinstance(value.get("imports"), dict):
        return {"digest": value.get("digest"), "imports": dict(value["imports"])}
    return _record(str(value))  # an earlier version stored digests in another format


def _differ(imports: dict[str, Any]) -> bool:
    from ludolf.config.settings.executed import digests_of

    return digests_of(map(Path, imports)) != imports


def _save_record(home: Home, record: dict[str, Any] | None) -> None:
    records = read_object(_digests_file(home))
    records.pop(os.path.realpath(home.cwd), None)
    if record is not None:
        records[os.path.realpath(home.cwd)] = record
    write_object(_digests_file(home), records)


def _digests_file(home: Home) -> Path:
    """Return the file of digests, next to trust.json, whose format is pi's."""
    return home.trust_file.with_name("trust-digests.json")


# ---------------------------------------------------------------- what needs trust


def guarded_paths(home: Home) -> tuple[Path, ...]:
    """Return the existing paths of this project that need trust."""
    own = [*(home.project / name for name in _GUARDED), home.shared_mcp_file]
    return tuple(path for path in (*own, *project_agents_skills(home)) if path.exists())
