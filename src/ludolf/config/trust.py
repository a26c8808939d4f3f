"""Project trust: whether a folder's settings and resources may be used at all."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from ludolf.base import ConfigError
from ludolf.config.files import read_object
from ludolf.config.home import Home

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
)


_LEFT_ASIDE = "its settings and resources are ignored (see --approve)"


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict, and what to tell the user if something is left aside."""

    trusted: bool
    notice: str | None = None


def decide_trust(
    home: Home,
    *,
    flag: bool | None = None,
    answer: bool | None = None,
    default: Literal["ask", "always", "never"] = "ask",
) -> Trust:
    """Whether this project is trusted.

    Order: the command line's `flag`, an extension's `answer`, the saved decision, the default.
    There is nobody to ask, so `ask` means no.
    """
    for verdict in (flag, answer):
        if verdict is not None:
            return Trust(trusted=verdict)
    try:
        saved = saved_decision(home.trust_file, home.cwd)
    except ConfigError as error:
        return Trust(trusted=False, notice=f"Invalid trust file {home.trust_file}: {error}")
    if saved and _has_changed(home):
        text = f"{home.cwd} has changed since it was trusted: {_LEFT_ASIDE}"
        return Trust(trusted=False, notice=text)
    if saved is not None or default == "always":
        return Trust(trusted=default == "always" if saved is None else saved)
    if not guarded_paths(home):
        return Trust(trusted=False)
    return Trust(trusted=False, notice=f"{home.cwd} is not trusted: {_LEFT_ASIDE}")


def saved_decision(trust_file: Path, cwd: Path) -> bool | None:
    """The decision stored for the nearest ancestor of a folder, itself included.

    Raises:
        ConfigError: trust.json is spoilt.
    """
    decisions = read_object(trust_file)
    real = Path(os.path.realpath(cwd))
    for folder in (real, *real.parents):
        verdict = decisions.get(str(folder))
        if isinstance(verdict, bool):
            return verdict
    return None


def save_decision(home: Home, *, trusted: bool) -> None:
    """Remember a decision for this folder, in the form that pi keeps it.

    Raises:
        ConfigError: trust.json is spoilt, or somebody else holds it.
        OSError: it cannot be written.
    """
    from ludolf.config.files import write_object
    from ludolf.config.lock import settings_lock

    path = home.trust_file
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with settings_lock(path) as lock:
        decisions = read_object(path)
        decisions[os.path.realpath(home.cwd)] = trusted
        lock.check()
        # First: who sees the decision must also see what it was about.
        _save_digest(home, trusted=trusted)
        write_object(path, decisions, mode=0o600)


def _has_changed(home: Home) -> bool:
    """Whether the project would run something else than when it was trusted; not so if another
    program of the family wrote the decision down, without what it was about."""
    try:
        known = read_object(_digests_file(home)).get(os.path.realpath(home.cwd))
    except ConfigError:
        return True
    if known is None:
        return False
    from ludolf.config.trust_digest import digest

    return bool(known != digest(home))


def _save_digest(home: Home, *, trusted: bool) -> None:
    from ludolf.config.files import write_object
    from ludolf.config.trust_digest import digest

    digests = read_object(_digests_file(home))
    digests.pop(os.path.realpath(home.cwd), None)
    if trusted:
        digests[os.path.realpath(home.cwd)] = digest(home)
    write_object(_digests_file(home), digests, mode=0o600)


def _digests_file(home: Home) -> Path:
    """Beside the decisions, whose form is pi's."""
    return home.trust_file.with_name("trust-digests.json")


def guarded_paths(home: Home) -> tuple[Path, ...]:
    """What in this project would need trust."""
    own = [home.project / name for name in _GUARDED]
    return tuple(path for path in (*own, *project_agents_skills(home)) if path.exists())


def project_agents_skills(home: Home) -> Iterator[Path]:
    """`.agents/skills` from the folder up to the repository root; the user's own is not one."""
    personal = home.user / ".agents" / "skills"
    for folder in (home.cwd, *home.cwd.parents):
        place = folder / ".agents" / "skills"
        if place != personal:
            yield place
        if (folder / ".git").exists():
            return
