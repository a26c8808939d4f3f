"""Load stream rules: Markdown files whose header has the condition."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from ludolf.base import ConfigError
from ludolf.base.patterns import lazy_pattern
from ludolf.base.project_files import TEXT_LIMIT, IsHidden, Reader
from ludolf.config.resources.front_matter import split, text_field
from ludolf.config.resources.linear_pattern import LinearPattern, Unsupported
from ludolf.config.resources.sources import LoadedItems
from ludolf.config.settings.home import OWN, RULE_FOLDERS, Home, reader_of, user_rule_folders

RuleInterrupt = Literal["always", "prose-only", "tool-only", "never"]
MODES: tuple[str, ...] = ("always", "prose-only", "tool-only", "never")
_ENDINGS = (".md", ".mdc")
_FLAGS = lazy_pattern(r"^\(\?([a-zA-Z]+)\)")
_SCOPE = lazy_pattern(r"^(text|thinking|tool)(?::([\w.-]+))?(?:\(([^)]*)\))?$")
_FILE_GLOB = lazy_pattern(r"\*[\w./*-]*\.[\w*]+")
_KNOWN_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
# Maximum number of rule files of a project, and the size of each.
MOST_FILES = 200
LONGEST_FILE = 64 * 1024
# Limits for all rules of an untrusted project together. Text is counted in characters.
LIMITS = {
    "rules": 64,
    "places": 256,
    "headers": 256 * 1024,
    "conditions": 16 * 1024,
    "patterns": 64,
    "positions": 2000,
}
RuleScope = Literal["project", "user"]


class RuleTarget(msgspec.Struct, frozen=True):
    """Scope of a rule: text, thinking, or tool arguments, optionally for some files."""

    kind: Literal["text", "thinking", "tool"]
    tool: str | None = None
    glob: str | None = None


class StreamRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that is sent to the model only after a violation."""

    name: str
    path: Path
    level: RuleScope
    content: str
    description: str
    condition: tuple[str, ...]
    # Patterns of the user or of a trusted project may need more than linear time.
    patterns: tuple["LinearPattern | re.Pattern[str]", ...]
    scope: tuple[str, ...]
    places: tuple[RuleTarget, ...]
    interrupt: RuleInterrupt | None = None
    # Whether the rule is the user's or of a trusted project.
    trusted: bool = True


class RuleFile(msgspec.Struct, frozen=True):
    """A file that may hold a rule, and its reader."""

    path: Path
    level: RuleScope
    reader: Reader


def find_rule_files(home: Home, is_hidden: IsHidden | None = None) -> LoadedItems[RuleFile]:
    """List the rule files without reading them; those of the project come first."""
    files: list[RuleFile] = []
    warnings: list[str] = []
    project = reader_of(home, home.cwd, is_hidden)
    for name in RULE_FOLDERS:
        files += _listed(home.cwd / name, "project", project, warnings)
    if len(files) > MOST_FILES:
        warnings.append(
            f"{home.cwd} has {len(files)} rule files; only the first {MOST_FILES} are used"
        )
        del files[MOST_FILES:]
    for folder in user_rule_folders(home):
        files += _listed(folder, "user", OWN, warnings)
    return LoadedItems(tuple(files), tuple(warnings))


def load_stream_rules(
    home: Home,
    disabled: tuple[str, ...] = (),
    *,
    trusted: bool = False,
    files: LoadedItems[RuleFile] | None = None,
) -> LoadedItems[StreamRule]:
    """Load all rules with a condition; a project's rule replaces the user's of the same name.

    A rule is text for the model, like a context file, but its pattern is executed. Unless the
    project is trusted, its patterns must be searchable in linear time, and few.
    """
    files = files or find_rule_files(home)
    rules: dict[str, StreamRule] = {}
    warnings = list(files.warnings)
    room = _Room()
    for file in files.items:
        name = file.path.stem
        own = trusted or file.level == "user"
        if name in rules or name in disabled or (room.is_full and not own):
            continue
        try:
            rule = _read(file, None if own else room)
        except _Full:
            warnings.append(
                f"{home.cwd} has too many rules: {file.path} and later ones are not used"
            )
            continue
        except ConfigError as error:
            warnings.append(str(error))
            continue
        except ValueError as error:
            warnings.append(f"Rule {file.path} is not used: {error}")
            continue
        if rule is not None:
            rules[rule.name] = rule
    return LoadedItems(tuple(rules.values()), tuple(warnings))


class _Full(Exception):
    """The rules of an untrusted project exceed the limits."""


class _Room:
    """Count the size of an untrusted project's rules; refused ones count too."""

    def __init__(self) -> None:
        self.is_full = False
        self._left = dict(LIMITS)

    def take(self, **amounts: int) -> None:
        """Count one rule.

        Raises:
            _Full: the limits are exceeded.
        """
        for name, amount in amounts.items():
            self._left[name] -= amount
            if self._left[name] < 0:
                self.is_full = True
                raise _Full


def _listed(
    folder: Path, level: RuleScope, reader: Reader, warnings: list[str]
) -> Iterator[RuleFile]:
    try:
        names = reader.names(folder)
    except ConfigError as error:
        warnings.append(str(error))
        return
    for name in names:
        path = folder / name
        if path.suffix in _ENDINGS:
            yield RuleFile(path, level, reader)


def _read(file: RuleFile, room: _Room | None) -> StreamRule | None:
    """Parse a rule; `room` is None for rules of the user and of a trusted project."""
    header, content = _parts(file, room)
    condition = _words(header.get("condition") or header.get("ttsr_trigger"), cut=False)
    if not condition:
        return None
    if room is not None:
        room.take(rules=1, conditions=sum(len(text) + 1 for text in condition))
    globs = tuple(text for text in condition if _FILE_GLOB.fullmatch(text))
    scope = _words(header.get("scope"), cut=True)
    mode = text_field(header, "interruptMode")
    if mode and mode not in MODES:
        raise ValueError(f"interruptMode is {mode}, not one of {', '.join(MODES)}")
    chosen: Any = mode or None
    places = _places(scope, globs, has_pattern=len(globs) < len(condition))
    if room is not None:
        room.take(places=len(places))
    return StreamRule(
        name=file.path.stem,
        path=file.path,
        level=file.level,
        content=content,
        description=text_field(header, "description"),
        condition=condition,
        patterns=tuple(_patterns([text for text in condition if text not in globs], room)),
        scope=scope,
        places=tuple(places),
        interrupt=chosen,
        trusted=room is None,
    )


def _parts(file: RuleFile, room: _Room | None) -> tuple[dict[str, Any], str]:
    """Return header and text of a rule; an invalid header counts towards the limits too."""
    limit = TEXT_LIMIT if file.level == "user" else LONGEST_FILE
    text = file.reader.text(file.path, limit) or ""
    content = ""
    try:
        header, content = split(text)
    finally:
        if room is not None:
            room.take(headers=len(text) - len(content))
    return header, content


def _words(value: Any, *, cut: bool) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    texts = [item for item in items if isinstance(item, str)]
    if cut:
        texts = [part for text in texts for part in text.split(",")]
    return tuple(text.strip() for text in texts if text.strip())


def _places(
    scope: tuple[str, ...], globs: tuple[str, ...], *, has_pattern: bool
) -> list[RuleTarget]:
    """Return the scopes; a condition that is a file name means edits and writes of such files."""
    places = [RuleTarget("tool", tool, glob) for glob in globs for tool in ("edit", "write")]
    if not has_pattern:
        return places
    for word in scope or ("text", "tool"):
        match = _SCOPE.match(word)
        if match is None:
            raise ValueError(f"scope has {word}, which is not a valid scope")
        kind: Any = match[1]
        places.append(RuleTarget(kind, match[2], match[3]))
    return places


def _patterns(texts: list[str], room: _Room | None) -> "Iterator[LinearPattern | re.Pattern[str]]":
    for text in texts:
        pattern = _pattern(text, trusted=room is None)
        if room is not None and isinstance(pattern, LinearPattern):
            room.take(patterns=1, positions=pattern.size)
        yield pattern


def _pattern(text: str, *, trusted: bool) -> "LinearPattern | re.Pattern[str]":
    """Compile a condition.

    Raises:
        ValueError: it is not a pattern, or it may be slow and is not trusted.
    """
    flags = 0
    if match := _FLAGS.match(text):
        for letter in match[1]:
            flags |= _KNOWN_FLAGS.get(letter, 0)
        text = text[match.end() :]
    try:
        linear = LinearPattern(text, flags)
    except Unsupported as error:
        if not trusted:
            reason = f"its pattern may be slow ({error}); trust the project to use it"
            raise ValueError(reason) from error
        linear = None
    try:
        plain = re.compile(text, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"condition is not a pattern: {error}") from error
    return linear or plain
