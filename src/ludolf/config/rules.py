"""Rule files: Markdown whose header says when a rule is broken."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from ludolf.config.front_matter import split, text_field
from ludolf.config.home import Home

InterruptMode = Literal["always", "prose-only", "tool-only", "never"]
MODES: tuple[str, ...] = ("always", "prose-only", "tool-only", "never")
_PROJECT = (".pi/rules", ".omp/rules", ".cursor/rules", ".windsurf/rules", ".clinerules")
_ENDINGS = (".md", ".mdc")
_FLAGS = re.compile(r"^\(\?([a-zA-Z]+)\)")
_SCOPE = re.compile(r"^(text|thinking|tool)(?::([\w.-]+))?(?:\(([^)]*)\))?$")
_FILE_GLOB = re.compile(r"^\*+[\w./*-]*\.[\w*]+$")
_KNOWN_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


_FEW_REPEATS = 2


class Place(msgspec.Struct, frozen=True):
    """Where a rule looks: prose, thoughts, or the arguments of a tool, perhaps of some files."""

    kind: Literal["text", "thinking", "tool"]
    tool: str | None = None
    glob: str | None = None


class StreamRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that costs nothing until the model breaks it."""

    name: str
    path: Path
    level: Literal["project", "user"]
    content: str
    description: str
    condition: tuple[str, ...]
    patterns: tuple["re.Pattern[str]", ...]
    scope: tuple[str, ...]
    places: tuple[Place, ...]
    interrupt: InterruptMode | None = None


class Found(msgspec.Struct, frozen=True):
    rules: tuple[StreamRule, ...]
    warnings: tuple[str, ...]


def load_stream_rules(
    home: Home, disabled: tuple[str, ...] = (), *, trusted: bool = False
) -> Found:
    """All rules with a condition. Of two with one name the project's counts.

    A rule is words for the model, as context files are; but its pattern is run. That of a project
    nobody has trusted must be one that cannot run for long.
    """
    rules: dict[str, StreamRule] = {}
    warnings: list[str] = []
    for path, level in _files(home):
        if path.stem in rules or path.stem in disabled:
            continue
        try:
            rule = _read(path, level, wild=trusted or level == "user")
        except (OSError, ValueError) as error:
            warnings.append(f"Rule {path} is not used: {error}")
            continue
        if rule is not None:
            rules[rule.name] = rule
    return Found(tuple(rules.values()), tuple(warnings))


def _files(home: Home) -> Iterator[tuple[Path, Literal["project", "user"]]]:
    for name in _PROJECT:
        yield from ((path, "project") for path in _listed(home.cwd / name))
    for folder in (home.agent / "rules", home.user / ".omp" / "agent" / "rules"):
        yield from ((path, "user") for path in _listed(folder))


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS)
    except OSError:
        return []


def _read(path: Path, level: Literal["project", "user"], *, wild: bool) -> StreamRule | None:
    header, content = split(path.read_text("utf-8", "replace"))
    condition = _words(header.get("condition") or header.get("ttsr_trigger"), cut=False)
    if not condition:
        return None
    globs = tuple(text for text in condition if _FILE_GLOB.match(text))
    if not wild and not all(is_tame(text) for text in condition if text not in globs):
        raise ValueError("its pattern may run for long; trust the project to use it")
    scope = _words(header.get("scope"), cut=True)
    mode = text_field(header, "interruptMode")
    if mode and mode not in MODES:
        raise ValueError(f"interruptMode is {mode}, not one of {', '.join(MODES)}")
    chosen: Any = mode or None
    return StreamRule(
        name=path.stem,
        path=path,
        level=level,
        content=content,
        description=text_field(header, "description"),
        condition=condition,
        patterns=tuple(_pattern(text) for text in condition if text not in globs),
        scope=scope,
        places=(*_places(scope, globs, has_pattern=len(globs) < len(condition)),),
        interrupt=chosen,
    )


def is_tame(pattern: str) -> bool:
    """Whether a pattern surely ends soon: no repeated group, no back reference, few repeats."""
    plain = re.sub(r"\\[^\d]|\[[^\]]*\]", "x", pattern)
    if re.search(r"\)[*+{]|\\\d|\(\?[P<]", plain):
        return False
    return len(re.findall(r"[*+]|\{\d*,", plain)) <= _FEW_REPEATS


def _words(value: Any, *, cut: bool) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    texts = [item for item in items if isinstance(item, str)]
    if cut:
        texts = [part for text in texts for part in text.split(",")]
    return tuple(text.strip() for text in texts if text.strip())


def _places(scope: tuple[str, ...], globs: tuple[str, ...], *, has_pattern: bool) -> list[Place]:
    """A condition that is a file name means any edit or write of such a file."""
    places = [Place("tool", tool, glob) for glob in globs for tool in ("edit", "write")]
    if not has_pattern:
        return places
    for word in scope or ("text", "tool"):
        found = _SCOPE.match(word)
        if found is None:
            raise ValueError(f"scope has {word}, which is no place")
        kind: Any = found[1]
        places.append(Place(kind, found[2], found[3]))
    return places


def _pattern(text: str) -> "re.Pattern[str]":
    flags = 0
    if found := _FLAGS.match(text):
        for letter in found[1]:
            flags |= _KNOWN_FLAGS.get(letter, 0)
        text = text[found.end() :]
    try:
        return re.compile(text, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"condition is no pattern: {error}") from error
