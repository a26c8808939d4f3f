"""Build the system prompt from named sections in a fixed order."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ludolf.base import ConfigError
from ludolf.base.patterns import lazy_pattern
from ludolf.base.project_files import IsHidden
from ludolf.config.resources.context_files import ContextFile
from ludolf.config.resources.skills import Skill
from ludolf.config.settings.home import OWN, Home, env, reader_for_named, reader_of

_SECTION_NAME = lazy_pattern(r"[a-z][a-z0-9_-]*")
_SHELLS = ("bash", "powershell")
_FINDERS = ("grep", "find", "ls")

PREAMBLE = (
    "You are Ludolf, a coding agent. You work in the user's folder through tools: read files, "
    "change them, write new ones and run commands until the task is done."
)
OTHER_TOOLS = (
    "The host or an extension may provide further tools; use them as their descriptions say."
)
EXPLORE_RULE = "Explore files and folders with {shell} (rg, find, ls)."
LAST_RULES = ("Answer briefly.", "Refer to files by their full path.")
CONTEXT_INTRO = "Instructions from the user and the project:"


class PromptTool(Protocol):
    """The fields of a tool that the prompt uses."""

    @property
    def name(self) -> str: ...
    @property
    def snippet(self) -> str | None: ...
    @property
    def guidelines(self) -> tuple[str, ...]: ...


class PromptSources(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a system prompt."""

    cwd: Path
    tools: Sequence[PromptTool] = ()
    custom: str | None = None
    addenda: tuple[str, ...] = ()
    context_files: tuple[ContextFile, ...] = ()
    skills: tuple[Skill, ...] = ()
    guidelines: tuple[str, ...] = ()
    extra: Mapping[str, str] = {}
    # The folder of pages about Ludolf.
    docs: Path | None = None


def build_sections(sources: PromptSources) -> dict[str, str]:
    """Return the sections of the prompt by name, in order, without their tags.

    Raises:
        ConfigError: an additional section has an invalid name.
    """
    sections = {"preamble": PREAMBLE if sources.custom is None else sources.custom}
    if sources.custom is None:
        sections["tools"] = _tools(sources.tools)
        sections["rules"] = _rules(sources.tools, sources.guidelines)
        if docs := _docs(sources.docs):
            sections["docs"] = docs
    if sources.addenda:
        sections["addendum"] = "\n\n".join(sources.addenda)
    if sources.context_files:
        sections["project_context"] = _project_context(sources.context_files)
    skills = _skills(sources.skills, [tool.name for tool in sources.tools])
    if skills:
        sections["skills"] = skills
    sections["cwd"] = str(sources.cwd).replace("\\", "/")
    for name, text in sources.extra.items():
        if name == "preamble" or not _SECTION_NAME.fullmatch(name):
            raise ConfigError(f'"{name}" cannot name a section of the system prompt')
        sections[name] = text
    return sections


def render(sections: Mapping[str, str]) -> str:
    """Render the prompt: the preamble without a tag, every other section in its tag."""
    parts = [
        text if name == "preamble" else f"<{name}>\n{text}\n</{name}>"
        for name, text in sections.items()
    ]
    return "\n\n".join(part for part in parts if part)


class PromptFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Access to the files of a prompt.

    `is_hidden` asks the sandbox; `warnings` collects reports of refused files.
    """

    is_hidden: IsHidden | None = None
    warnings: list[str] = []


def find_custom_prompt(
    home: Home, *, trusted: bool, given: str | None = None, files: PromptFiles | None = None
) -> str | None:
    """Return the custom prompt: of the command line, the trusted project, or the user.

    Raises:
        ConfigError: the file of the command line cannot be read.
    """
    files = files or PromptFiles()
    if given:
        return text_or_file(home, given, files.is_hidden)
    return _first_file(home, "SYSTEM.md", trusted=trusted, files=files)


def find_addenda(
    home: Home, *, trusted: bool, given: Iterable[str] = (), files: PromptFiles | None = None
) -> tuple[str, ...]:
    """Return texts to append to the prompt: all of the command line, or one file.

    Raises:
        ConfigError: a file of the command line cannot be read.
    """
    files = files or PromptFiles()
    texts = tuple(text_or_file(home, item, files.is_hidden) for item in given if item)
    if texts:
        return texts
    text = _first_file(home, "APPEND_SYSTEM.md", trusted=trusted, files=files)
    return (text,) if text else ()


def text_or_file(home: Home, given: str, is_hidden: IsHidden | None = None) -> str:
    """Return a prompt that is given as text or as the path of an existing file.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        path = home.cwd / home.expand(given)
        is_file = path.is_file()
    except (OSError, ValueError):
        # A long text is not a path, and some systems raise an error for it.
        return given
    if not is_file:
        return given
    return reader_for_named(home, path, is_hidden).text(path) or ""


def _first_file(home: Home, name: str, *, trusted: bool, files: PromptFiles) -> str | None:
    places = [(home.project, reader_of(home, home.cwd, files.is_hidden))] if trusted else []
    for folder, reader in (*places, (home.agent, OWN)):
        try:
            text = reader.text(folder / name)
        except ConfigError as error:
            files.warnings.append(str(error))
            continue
        if text is not None:
            return text
    return None


def _tools(tools: Iterable[PromptTool]) -> str:
    lines = [f"- {tool.name}: {tool.snippet}" for tool in tools if tool.snippet]
    return "\n".join(lines or ["(none)"]) + f"\n\n{OTHER_TOOLS}"


def _rules(tools: Sequence[PromptTool], guidelines: Iterable[str]) -> str:
    names = [tool.name for tool in tools]
    shell = next((name for name in names if name in _SHELLS), None)
    rules: list[str] = []
    if shell and not any(name in _FINDERS for name in names):
        rules.append(EXPLORE_RULE.format(shell=shell))
    for tool in tools:
        rules += tool.guidelines
    rules += (*guidelines, *LAST_RULES)
    trimmed = (rule.strip() for rule in rules)
    return "\n".join(f"- {rule}" for rule in dict.fromkeys(trimmed) if rule)


def docs_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of pages that is part of every install."""
    named = env("PACKAGE_DIR", environ)
    return (Path(named) if named else Path(__file__).parents[2]) / "docs"


def _docs(folder: Path | None) -> str:
    """Name the folder of pages; empty if it is missing."""
    if folder is None or not folder.is_dir():
        return ""
    place = str(folder).replace("\\", "/")
    return (
        f"Ludolf's documentation is in {place}. Read it only when the user asks about Ludolf "
        "itself: its settings, models, skills, templates, extensions or protocol."
    )


def _project_context(files: Iterable[ContextFile]) -> str:
    blocks = [
        f'<project_instructions path="{file.path}">\n{file.content}\n</project_instructions>'
        for file in files
    ]
    return "\n\n".join((CONTEXT_INTRO, *blocks))


def _skills(skills: Iterable[Skill], active: Sequence[str]) -> str:
    reader = next((name for name in ("read", *_SHELLS) if name in active), None)
    visible = [skill for skill in skills if not skill.hidden]
    if reader is None or not visible:
        return ""
    note = (
        "Each skill below has instructions for one kind of task. When the task matches a "
        f"description, load the file at its location with the {reader} tool before you start. "
        "Resolve relative paths in a skill against the folder of its file."
    )
    return f"{note}\n\n<available_skills>\n{_skill_list(visible)}\n</available_skills>"


def _skill_list(skills: Iterable[Skill]) -> str:
    lines: list[str] = []
    for skill in skills:
        lines += [
            "  <skill>",
            f"    <name>{_escape(skill.name)}</name>",
            f"    <description>{_escape(skill.description)}</description>",
            f"    <location>{_escape(str(skill.path))}</location>",
            "  </skill>",
        ]
    return "\n".join(lines)


def _escape(text: str) -> str:
    for char, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot"), ("'", "apos")):
        text = text.replace(char, f"&{name};")
    return text
