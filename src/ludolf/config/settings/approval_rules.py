"""Approval of tool calls: what settings say, read strictly, and how they judge a call."""

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec

from ludolf.base import ConfigError
from ludolf.config.models.patterns import matches_path, reaches
from ludolf.config.settings.literal_command import literal_words
from ludolf.config.settings.settings import SettingsFiles

Mode = Literal["never", "on-write", "always", "rules"]
Action = Literal["allow", "ask", "deny"]
MODES: tuple[Mode, ...] = ("never", "on-write", "always", "rules")
_STRICTNESS: tuple[Action, ...] = ("allow", "ask", "deny")
# A rule that forbids something may be meant, but only a shell could tell.
_Match = Action | Literal["unsure"]


class Rule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`tool` is a glob of names. `command` is for calls with a command: a glob for each word, and a
    last `*` for any further ones. `path` is for calls with a path: `*` stops at a slash, `**` does
    not; it counts from the working folder unless it begins with `/` or `~/`."""

    tool: str
    action: Action
    command: str | None = None
    path: str | None = None


class Approval(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """One file's say. Without a mode, rules make it `rules`."""

    mode: Mode | None = None
    rules: tuple[Rule, ...] = ()
    timeout_ms: Annotated[int, msgspec.Meta(ge=1)] = 300_000

    @property
    def chosen(self) -> Mode:
        return self.mode or ("rules" if self.rules else "never")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call as rules see it. `paths` is one path under its names, absolute: as given, and the
    real one; empty if it is not that of a file. `walks`: all that is below it is looked at too."""

    tool: str
    read_only: bool
    command: str | None = None
    has_path: bool = False
    paths: tuple[str, ...] = ()
    walks: bool = False
    cwd: str = ""
    home: str = ""


def read_approvals(files: SettingsFiles, mode: str | None) -> tuple[Approval, ...]:
    """The say of the user, whose mode the command line may replace, and that of the project.

    Raises:
        ConfigError: something in them makes no sense; nothing is guessed where safety is at stake.
    """
    own = read_strictly(files.user.approval, Approval, files.user_name, "approval")
    theirs = read_strictly(files.project.approval, Approval, files.project_name, "approval")
    if mode is not None:
        own = msgspec.structs.replace(own, mode=check_choice("--approval", mode, MODES))
    return tuple(each for each in (own, theirs) if each.chosen != "never" or each.rules)


def judge(say: tuple[Approval, ...], call: Call) -> Action:
    """The strictest of all: who comes second can tighten, never loosen."""
    return max((_judge(each, call) for each in say), key=_STRICTNESS.index, default="allow")


def deadline_ms(say: tuple[Approval, ...]) -> int:
    return min((each.timeout_ms for each in say), default=Approval().timeout_ms)


# ---------------------------------------------------------------- strict reading


def read_strictly(raw: Any, kind: type[Any], file: str, key: str) -> Any:
    """A value of settings, or its default if absent.

    Raises:
        ConfigError: it does not fit.
    """
    try:
        return kind() if raw is None else msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"Invalid setting in {file}: {key}: {error}") from None


def check_choice(what: str, value: str, known: tuple[Any, ...]) -> Any:
    """Raises:
    ConfigError: it is none of the known ones.
    """
    if value not in known:
        raise ConfigError(f'Invalid {what} "{value}". Valid values: {", ".join(known)}')
    return value


# ---------------------------------------------------------------- judging


def _judge(say: Approval, call: Call) -> Action:
    ruled = next(_matches(say.rules, call), None)
    mode = say.chosen
    if ruled == "deny":
        return "deny"
    if mode == "never":
        # Nobody is to be asked, so what may be forbidden counts as forbidden.
        return "deny" if ruled == "unsure" else "allow"
    if ruled in ("unsure", "ask"):
        return "ask"
    if mode == "rules":
        return "allow" if ruled == "allow" else "ask"
    return "allow" if mode == "on-write" and call.read_only else "ask"


def _matches(rules: tuple[Rule, ...], call: Call) -> Iterator[_Match]:
    for rule in rules:
        if not fnmatchcase(call.tool, rule.tool):
            continue
        fits = _fits(rule, call)
        if fits is True:
            yield rule.action
        elif fits is None and rule.action != "allow":
            yield "unsure" if rule.action == "deny" else "ask"


def _fits(rule: Rule, call: Call) -> bool | None:
    """None: it cannot be told, which is no to who allows and maybe to who forbids."""
    found: list[bool | None] = [True]
    if rule.command is not None:
        found.append(_fits_command(rule, call))
    if rule.path is not None:
        found.append(_fits_path(rule, call))
    if False in found:
        return False
    return None if None in found else True


def _fits_command(rule: Rule, call: Call) -> bool | None:
    if call.command is None or rule.command is None:
        return False
    words = literal_words(call.command)
    if words is None:
        return None
    pattern = rule.command.split()
    if _fits_words(pattern, words):
        return True
    # Another way to the same program is no way around a rule that forbids it.
    by_name = (os.path.basename(words[0]), *words[1:])
    return rule.action != "allow" and _fits_words(pattern, by_name)


def _fits_words(pattern: list[str], words: tuple[str, ...]) -> bool:
    if pattern and pattern[-1] == "*":
        pattern = pattern[:-1]
        words = words[: len(pattern)]
    return len(pattern) == len(words) and all(map(fnmatchcase, words, pattern))


def _fits_path(rule: Rule, call: Call) -> bool | None:
    if not call.has_path or rule.path is None:
        return False
    if not call.paths:
        return None
    # Allowed only under every name that it has, forbidden under any.
    if rule.action == "allow":
        return all(_fits_one(rule.path, path, call) for path in call.paths)
    # Who may touch nothing in a folder may not list it either.
    patterns = (rule.path, rule.path.removesuffix("/**"))
    if any(_fits_one(pattern, path, call) for pattern in patterns for path in call.paths):
        return True
    within = call.walks and any(_reaches_one(rule.path, path, call) for path in call.paths)
    return None if within else False


def _fits_one(pattern: str, path: str, call: Call) -> bool:
    base, rest = _based(pattern, call)
    return path.startswith(f"{base}/") and matches_path(rest, path[len(base) + 1 :])


def _reaches_one(pattern: str, folder: str, call: Call) -> bool:
    base, rest = _based(pattern, call)
    if f"{base}/".startswith(f"{folder.rstrip('/')}/"):
        return True
    return folder.startswith(f"{base}/") and reaches(rest, folder[len(base) + 1 :])


def _based(pattern: str, call: Call) -> tuple[str, str]:
    """The folder that a pattern counts from, without a slash at its end, and the rest."""
    if pattern.startswith("/"):
        return "", pattern[1:]
    base = call.home if pattern.startswith("~/") else call.cwd
    return base.rstrip("/"), pattern.removeprefix("~/").removeprefix("./")
