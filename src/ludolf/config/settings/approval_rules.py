"""Approval policies for tool calls: parse them strictly and decide on a call."""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from ludolf.base import ConfigError, Value
from ludolf.config.settings.mistakes import valid_values
from ludolf.config.settings.settings import Settings, SettingsFiles

T = TypeVar("T", bound=Value)

# A part of a word: text in quotes that no shell changes, or characters that are literal in every
# shell. Any other character (tilde, glob, brace, comment, backslash, variable, second command)
# needs a shell to interpret the text.
_PIECE = r"""'[^']*+'|"[^"$`\\!]*+"|[A-Za-z0-9_@%+=:,./-]++"""
_WORD = rf"(?:{_PIECE})++"
# zsh expands =name to the path of a program.
_COMMAND = rf"(?:[ \t]*+(?!=)(?:{_PIECE})++)++[ \t]*+"


def literal_words(text: str) -> tuple[str, ...] | None:
    """Return the words of a command; None if the text may be more than literal words."""
    if not re.fullmatch(_COMMAND, text):
        return None
    words = tuple(_unquoted(word) for word in re.findall(_WORD, text))
    # An assignment before a command (LD_PRELOAD=...) changes its behaviour.
    return words if "=" not in words[0] and all(map(str.isprintable, words)) else None


def _unquoted(word: str) -> str:
    pieces = re.findall(_PIECE, word)
    return "".join(piece[1:-1] if piece[0] in "'\"" else piece for piece in pieces)


ApprovalMode = Literal["never", "on-command", "on-write", "always", "rules"]
Action = Literal["allow", "ask", "deny"]
# What the user of a host may choose for a session; `default` is what the settings say.
SessionApproval = Literal["ask", "auto", "read-only", "default"]
MODES: tuple[ApprovalMode, ...] = ("never", "on-command", "on-write", "always", "rules")
_STRICTNESS: tuple[Action, ...] = ("allow", "ask", "deny")
# Tools that `on-command` lets run: they change only the file that they name.
_WRITING = ("write", "edit")
# A deny rule may match, but only a shell could decide.
_Match = Action | Literal["unsure"]


class StrictValue(Value, forbid_unknown_fields=True):
    """A safety setting: an unknown key is an error."""


class ApprovalRule(StrictValue):
    """A rule for tool calls.

    `tool` is a glob of names. `command` is for calls with a command: a glob for each word; a last
    `*` matches all further words. `path` is for calls with a path: `*` stops at a slash, `**` does
    not; it is relative to the working folder unless it begins with `/` or `~/`.
    """

    tool: str
    action: Action
    command: str | None = None
    path: str | None = None


class Approval(StrictValue):
    """The policy of one settings file. With rules and no mode, the mode is `rules`."""

    mode: ApprovalMode | None = None
    rules: tuple[ApprovalRule, ...] = ()
    timeout_ms: Annotated[int, msgspec.Meta(ge=1)] = 300_000

    @property
    def chosen(self) -> ApprovalMode:
        return self.mode or ("rules" if self.rules else "never")


class CallFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call in the form that rules match.

    `paths` are the absolute forms of one path: as given, and resolved; empty if it is not a file
    path. `walks`: the tool also reads everything below the path.
    """

    tool: str
    read_only: bool
    command: str | None = None
    has_path: bool = False
    paths: tuple[str, ...] = ()
    walks: bool = False
    cwd: str = ""
    home: str = ""


def read_approvals(
    files: SettingsFiles, mode: str | None, default: str | None = None
) -> tuple[Approval, ...]:
    """Return the policies of the user and of the project.

    The command line may replace the user's mode. `default` is the mode of a user who has chosen
    neither a mode nor rules.

    Raises:
        ConfigError: a policy is invalid; safety settings are never guessed.
    """
    own, theirs = read_strictly(files, "approval", Approval)
    if mode is None and own.mode is None and not own.rules:
        mode = default
    if mode is not None:
        own = msgspec.structs.replace(own, mode=check_choice("approval mode", mode, MODES))
    return tuple(each for each in (own, theirs) if each.chosen != "never" or each.rules)


def judge(say: tuple[Approval, ...], call: CallFacts) -> Action:
    """Return the strictest decision: a later policy can tighten, never loosen."""
    return max((_judge(each, call) for each in say), key=_STRICTNESS.index, default="allow")


def session_mode(say: tuple[Approval, ...]) -> SessionApproval:
    """Return the choice for a session that policies amount to."""
    if not say:
        return "auto"
    return "ask" if say == (Approval(mode="on-write", timeout_ms=say[0].timeout_ms),) else "default"


def for_session(say: tuple[Approval, ...], choice: SessionApproval) -> tuple[Approval, ...]:
    """Return the policies with the mode that a choice stands for. Deny rules always hold."""
    if choice == "ask":
        asking = say or (Approval(),)
        return tuple(msgspec.structs.replace(each, mode="on-write") for each in asking)
    if choice == "auto":
        return tuple(msgspec.structs.replace(each, mode="never") for each in say)
    return say


def deadline_ms(say: tuple[Approval, ...]) -> int:
    return min((each.timeout_ms for each in say), default=Approval().timeout_ms)


# ---------------------------------------------------------------- strict reading


def read_strictly(files: SettingsFiles, key: str, kind: type[T]) -> tuple[T, T]:
    """Parse a value of the user's and of the project's settings; default values if absent.

    Raises:
        ConfigError: a value is invalid.
    """

    def read(settings: Settings, name: str) -> T:
        raw = getattr(settings, key)
        try:
            return kind() if raw is None else msgspec.convert(raw, kind)
        except msgspec.ValidationError as error:
            valid = valid_values(kind, str(error).partition(" - at ")[2])
            raise ConfigError(f"Invalid setting in {name}: {key}: {error}{valid}") from None

    return read(files.user, files.user_name), read(files.project, files.project_name)


def check_choice(what: str, value: str, known: tuple[Any, ...]) -> Any:
    """Check that a value is one of the valid ones.

    Raises:
        ConfigError: it is not.
    """
    if value not in known:
        raise ConfigError(f'Invalid {what} "{value}". Valid values: {", ".join(known)}')
    return value


# ---------------------------------------------------------------- judging


def _judge(policy: Approval, call: CallFacts) -> Action:
    ruled = next(_matches(policy.rules, call), None)
    mode = policy.chosen
    if ruled == "deny":
        return "deny"
    if mode == "never":
        # Without a question to the host, a possible match of a deny rule denies.
        return "deny" if ruled == "unsure" else "allow"
    if ruled in ("unsure", "ask"):
        return "ask"
    if mode == "rules":
        return "allow" if ruled == "allow" else "ask"
    if call.read_only:
        return "ask" if mode == "always" else "allow"
    return "allow" if mode == "on-command" and call.tool in _WRITING else "ask"


def _matches(rules: tuple[ApprovalRule, ...], call: CallFacts) -> Iterator[_Match]:
    for rule in rules:
        if not fnmatchcase(call.tool, rule.tool):
            continue
        fits = _fits(rule, call)
        if fits is True:
            yield rule.action
        elif fits is None and rule.action != "allow":
            yield "unsure" if rule.action == "deny" else "ask"


def _fits(rule: ApprovalRule, call: CallFacts) -> bool | None:
    """Return whether a rule matches; None if undecidable.

    Allow rules treat None as no match, deny rules as a possible match.
    """
    matches: list[bool | None] = [True]
    if rule.command is not None:
        matches.append(_fits_command(rule, call))
    if rule.path is not None:
        matches.append(_fits_path(rule, call))
    if False in matches:
        return False
    return None if None in matches else True


def _fits_command(rule: ApprovalRule, call: CallFacts) -> bool | None:
    if call.command is None or rule.command is None:
        return False
    words = literal_words(call.command)
    if words is None:
        return None
    pattern = rule.command.split()
    if _fits_words(pattern, words):
        return True
    # Another path to the same program must not bypass a deny rule.
    by_name = (os.path.basename(words[0]), *words[1:])
    return rule.action != "allow" and _fits_words(pattern, by_name)


def _fits_words(pattern: list[str], words: tuple[str, ...]) -> bool:
    if pattern and pattern[-1] == "*":
        pattern = pattern[:-1]
        words = words[: len(pattern)]
    return len(pattern) == len(words) and all(map(fnmatchcase, words, pattern))


def _fits_path(rule: ApprovalRule, call: CallFacts) -> bool | None:
    if not call.has_path or rule.path is None:
        return False
    if not call.paths:
        return None
    # An allow rule must match every form of the path, a deny rule any.
    if rule.action == "allow":
        return all(_fits_one(rule.path, path, call) for path in call.paths)
    # A rule for everything in a folder also applies to the folder.
    patterns = (rule.path, rule.path.removesuffix("/**"))
    if any(_fits_one(pattern, path, call) for pattern in patterns for path in call.paths):
        return True
    within = call.walks and any(_reaches_one(rule.path, path, call) for path in call.paths)
    return None if within else False


def _fits_one(pattern: str, path: str, call: CallFacts) -> bool:
    from ludolf.config.models.patterns import matches_path

    base, rest = _based(pattern, call)
    return path.startswith(f"{base}/") and matches_path(rest, path[len(base) + 1 :])


def _reaches_one(pattern: str, folder: str, call: CallFacts) -> bool:
    from ludolf.config.models.patterns import reaches

    base, rest = _based(pattern, call)
    if f"{base}/".startswith(f"{folder.rstrip('/')}/"):
        return True
    return folder.startswith(f"{base}/") and reaches(rest, folder[len(base) + 1 :])


def _based(pattern: str, call: CallFacts) -> tuple[str, str]:
    """Split a pattern into its base folder, without a final slash, and the rest."""
    if pattern.startswith("/"):
        return "", pattern[1:]
    base = call.home if pattern.startswith("~/") else call.cwd
    return base.rstrip("/"), pattern.removeprefix("~/").removeprefix("./")
