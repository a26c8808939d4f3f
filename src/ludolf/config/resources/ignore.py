"""Apply ignore files (.gitignore, .ignore, .fdignore) to the folders of skills."""

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ludolf.base import ConfigError
from ludolf.base.project_files import Reader

if TYPE_CHECKING:
    from ludolf.config.resources.linear_pattern import LinearPattern

LONGEST_FILE = 64 * 1024
IGNORE_FILES = (".gitignore", ".ignore", ".fdignore")


class IgnoreRule(msgspec.Struct, frozen=True):
    """One line of an ignore file; `base` is the directory that holds the file."""

    base: Path
    shape: "LinearPattern"
    keeps: bool
    folders_only: bool


def read_rules(directory: Path, reader: Reader) -> tuple[IgnoreRule, ...]:
    """Read the rules of the ignore files in a directory; unreadable files add none."""
    rules: list[IgnoreRule] = []
    for name in IGNORE_FILES:
        try:
            lines = (reader.text(directory / name, LONGEST_FILE) or "").splitlines()
        except ConfigError:
            continue
        rules += [rule for line in lines if (rule := _rule(directory, line)) is not None]
    return tuple(rules)


def is_ignored(path: Path, rules: tuple[IgnoreRule, ...], *, folder: bool) -> bool:
    """Return whether the last rule that matches the path ignores it."""
    dropped = False
    for rule in rules:
        if rule.folders_only and not folder:
            continue
        if rule.shape.search(path.relative_to(rule.base).as_posix()):
            dropped = not rule.keeps
    return dropped


def _rule(base: Path, line: str) -> IgnoreRule | None:
    text = line.rstrip()
    if not text or text.startswith("#"):
        return None
    keeps = text.startswith("!")
    text = text[1:] if keeps else text
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    # A pattern with an inner slash is relative to the directory of its file.
    anchored = "/" in text
    body = glob_shape(text.lstrip("/"))
    prefix = "" if anchored else "(?:.*/)?"
    shape = _compiled(rf"\A{prefix}{body}\Z")
    return None if shape is None else IgnoreRule(base, shape, keeps, folders_only)


def _compiled(pattern: str) -> "LinearPattern | None":
    # Not at the start: few folders of skills have ignore files.
    from ludolf.config.resources.linear_pattern import LinearPattern, Unsupported

    try:
        # In linear time: the file may come from others, and a star can match in many ways.
        return LinearPattern(pattern)
    except (Unsupported, re.error):
        return None  # such as a range from z to a


@cache
def glob_shape(pattern: str) -> str:
    """Return the regular expression of a glob, in which a star does not match a slash."""
    out, at = "", 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            out, at = out + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            out, at = out + ".*", at + 2
        elif pattern[at] == "*":
            out, at = out + "[^/]*", at + 1
        elif pattern[at] == "?":
            out, at = out + "[^/]", at + 1
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\")
            inner = "^" + inner[1:] if inner[0] == "!" else inner
            out, at = out + f"[{inner}]", end + 1
        elif pattern[at] == "\\" and at + 1 < len(pattern):
            out, at = out + re.escape(pattern[at + 1]), at + 2
        else:
            out, at = out + re.escape(pattern[at]), at + 1
    return out
