"""Load skills (folders with a SKILL.md that the model reads) and expand `/skill:name`."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ludolf.base import CommandError, ConfigError
from ludolf.base.patterns import lazy_pattern
from ludolf.base.project_files import Reader
from ludolf.config.resources import front_matter
from ludolf.config.resources.ignore import IgnoreRule, is_ignored, read_rules
from ludolf.config.resources.sources import LoadedItems, Resource, Source, keep_first
from ludolf.config.settings.home import OWN

SKILL_FILE = "SKILL.md"
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
# Maximum folders that are searched per source (links may count one twice), and their depth.
MOST_FOLDERS = 5000
DEEPEST = 16
_NAME = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_CALL = lazy_pattern(r"/skill:(\S+)\s*(.*)", re.DOTALL)


class Skill(Resource, frozen=True, kw_only=True):
    """A skill; `hidden` ones are not listed to the model and are called by name only."""

    hidden: bool = False
    reader: Reader = OWN

    @property
    def base_dir(self) -> Path:
        return self.path.parent


def load_skills(sources: Iterable[Source]) -> LoadedItems[Skill]:
    """Load the skills of all sources in the order of `get_commands`: named paths last."""
    warnings: list[str] = []
    return keep_first(_skills(sources, warnings), warnings)


def expand_skill(text: str, skills: Iterable[Skill]) -> str:
    """Replace `/skill:name args` by the text of the skill; return other text unchanged.

    Raises:
        CommandError: the skill's file can no longer be read.
    """
    call = _CALL.fullmatch(text)
    skill = next((one for one in skills if call and one.name == call[1]), None)
    if call is None or skill is None:
        return text
    try:
        content = skill.reader.text(skill.path)
        _, body = front_matter.split(content or "")
    except (ConfigError, ValueError) as error:
        raise CommandError(f"Skill {skill.name} cannot be used: {error}") from error
    if content is None:
        raise CommandError(f"Skill {skill.name} cannot be used: {skill.path} does not exist")
    block = (
        f'<skill name="{skill.name}" location="{skill.path}">\n'
        f"References are relative to {skill.base_dir}.\n\n{body}\n</skill>"
    )
    args = call[2].strip()
    return f"{block}\n\n{args}" if args else block


def _skills(sources: Iterable[Source], warnings: list[str]) -> Iterator[Skill | None]:
    seen: set[str] = set()
    for source in sources:
        for path, needs_description in _Walk(source, warnings).files():
            real = os.path.realpath(path)
            if real not in seen and source.allow(path):
                seen.add(real)
                yield _read_skill(path, source, warnings, optional=needs_description)


class _Walk:
    """Search for skill files in one source."""

    def __init__(self, source: Source, warnings: list[str]) -> None:
        self._source = source
        self._warnings = warnings
        self._folders = 0

    def files(self) -> Iterator[tuple[Path, bool]]:
        """Yield skill files, and whether a file counts as a skill only with a description."""
        if self._source.path.is_file():
            yield self._source.path, False
            return
        yield from self._folder(self._source.path, (), ())
        if self._folders > MOST_FOLDERS:
            self._warnings.append(
                f"{self._source.path}: only the first {MOST_FOLDERS} folders are searched"
            )

    def _folder(
        self, folder: Path, rules: tuple[IgnoreRule, ...], above: tuple[str, ...]
    ) -> Iterator[tuple[Path, bool]]:
        self._folders += 1
        real = os.path.realpath(folder)
        if real in above or len(above) > DEEPEST or self._folders > MOST_FOLDERS:
            return
        if (folder / SKILL_FILE).is_file():
            yield folder / SKILL_FILE, False
            return
        rules = (*rules, *read_rules(folder, self._source.reader))
        for path in self._children(folder):
            is_folder = path.is_dir()
            if is_ignored(path, rules, folder=is_folder):
                continue
            if is_folder:
                yield from self._folder(path, rules, (*above, real))
            elif not above and path.suffix == ".md" and path.is_file():
                yield path, True

    def _children(self, folder: Path) -> list[Path]:
        try:
            names = self._source.reader.names(folder)
        except ConfigError as error:
            self._warnings.append(str(error))
            return []
        visible = (name for name in names if not name.startswith(".") and name != "node_modules")
        return [folder / name for name in visible]


def _read_skill(path: Path, source: Source, warnings: list[str], *, optional: bool) -> Skill | None:
    try:
        header, _ = front_matter.split(source.reader.text(path) or "")
    except (ConfigError, ValueError) as error:
        warnings.append(f"{path}: {error}")
        return None
    name = front_matter.text_field(header, "name") or path.parent.name
    description = front_matter.text_field(header, "description")
    if not description:
        if not optional:
            warnings.append(f"{path}: description is required")
        return None
    warnings += [f"{path}: {text}" for text in _complaints(name, description)]
    return Skill(
        name=name,
        description=description,
        path=path,
        info=source.info(path),
        hidden=header.get("disable-model-invocation") is True,
        reader=source.reader,
    )


def _complaints(name: str, description: str) -> Iterator[str]:
    if len(name) > LONGEST_NAME:
        yield f"name exceeds {LONGEST_NAME} characters"
    if not _NAME.fullmatch(name):
        yield f'name "{name}" should be lower-case letters, digits and single inner hyphens'
    if len(description) > LONGEST_DESCRIPTION:
        yield f"description exceeds {LONGEST_DESCRIPTION} characters"
