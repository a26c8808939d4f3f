"""Translate command lines of omp and xcsh, for hosts that pass their flags."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from ludolf.base import ConfigError

_RENAMED = {"--hook": "--extension", "--trusted-extension": "--extension"}
# Without a value, these resume the last session.
_RESUMING = ("--resume", "-r", "--session")
# These switch off features that do not exist here, so they have no effect.
_GRANTED = frozenset(
    [
        "--allow-home",
        "--hide-thinking",
        "--no-lsp",
        "--no-prewalk",
        "--no-pty",
        "--no-title",
    ]
)
_UNASKED = ("--auto-approve", "--yolo")
_APPROVAL = {"always-ask": "always", "write": "on-command", "yolo": "never"}
_SWITCHES = frozenset(
    [
        "--advisor",
        "--external-thinking",
        "--from-claude",
        "--from-codex",
        "--no-rules",
        "--no-ui",
        "--plan-yolo",
        "--prewalk",
        "--print-thoughts",
    ]
)
_VALUES = frozenset(
    [
        "--add-dir",
        "--alias",
        "--config",
        "--max-time",
        "--plan",
        "--plan-yolo-into",
        "--plugin-dir",
        "--prewalk-into",
        "--profile",
        "--prompt-cache-key",
        "--provider-session-id",
        "--service-tier",
        "--skills",
        "--slow",
        "--smol",
        "--system-prompt-template",
    ]
)


class Translated(Struct):
    """The translated arguments; `cwd` is the working folder if a flag sets one."""

    words: list[str] = field(default_factory=list)
    cwd: Path | None = None
    warnings: list[str] = field(default_factory=list)


def in_our_words(words: Sequence[str]) -> Translated:
    """Translate arguments; flags without a counterpart are dropped with a warning.

    Raises:
        ConfigError: a flag lacks its value.
    """
    result = Translated()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            result.words += [word, *rest]
            break
        flag, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if equals:
            rest.insert(0, value)
        _take(result, flag, rest, has_value=bool(equals))
    return result


def _take(result: Translated, flag: str, rest: list[str], *, has_value: bool) -> None:
    if flag in _RESUMING:
        has_value = bool(rest) and (has_value or not rest[0].startswith("-"))
        session = rest.pop(0) if has_value else ""
        result.words += ["--session", session] if session else ["--continue"]
    elif flag in _RENAMED:
        result.words += [_RENAMED[flag], _value(flag, rest)]
    elif flag == "--cwd":
        result.cwd = Path(_value(flag, rest))
    elif flag == "--approval-mode":
        mode = _value(flag, rest)
        # An unknown mode is passed on and refused by the parser: safety settings are not guessed.
        result.words += ["--approval", _APPROVAL.get(mode, mode)]
    elif flag in _UNASKED:
        del rest[:has_value]
        result.words += ["--approval", "never"]
    elif flag in _VALUES:
        _value(flag, rest)
        result.warnings.append(f"{flag} has no effect here")
    elif flag in _GRANTED or flag in _SWITCHES:
        del rest[:has_value]
        if flag in _SWITCHES:
            result.warnings.append(f"{flag} has no effect here")
    else:
        result.words.append(f"{flag}={rest.pop(0)}" if has_value else flag)


def _value(flag: str, rest: list[str]) -> str:
    if not rest:
        raise ConfigError(f"{flag} needs a value")
    return rest.pop(0)
