"""Prompt templates: Markdown files that `/name args` turns into a prompt."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ludolf.base import ConfigError
from ludolf.base.patterns import lazy_pattern
from ludolf.config.resources import front_matter
from ludolf.config.resources.sources import LoadedItems, Resource, Source, keep_first

LONGEST_DESCRIPTION = 60
# Maximum number of templates of one source.
MOST_FILES = 1000
_CALL = lazy_pattern(r"/(\S+)\s*(.*)", re.DOTALL)
_SLOT = lazy_pattern(
    r"\$\{(?P<name>\d+|@|ARGUMENTS):-(?P<default>[^}]*)\}"
    r"|\$\{@:(?P<start>\d+)(?::(?P<length>\d+))?\}"
    r"|\$(?P<place>\d+)"
    r"|\$(?P<all>@|ARGUMENTS)"
)


class Template(Resource, frozen=True, kw_only=True):
    body: str
    argument_hint: str | None = None


def load_templates(sources: Iterable[Source]) -> LoadedItems[Template]:
    """Load the templates of all sources in the order of `get_commands`: named paths last."""
    warnings: list[str] = []
    files = ((path, source) for source in sources for path in _template_files(source, warnings))
    return keep_first((_read_template(*file, warnings) for file in files), warnings)


def expand_template(text: str, templates: Iterable[Template]) -> str:
    """Replace `/name args` by the text of the template; return other text unchanged."""
    call = _CALL.fullmatch(text)
    if call is None:
        return text
    for template in templates:
        if template.name == call[1]:
            return fill(template.body, split_args(call[2]))
    return text


def split_args(text: str) -> list[str]:
    """Split arguments into words; single and double quotes group words."""
    args: list[str] = []
    word: str | None = None
    quote = ""
    for char in text:
        if quote:
            if char == quote:
                quote = ""
            else:
                word = (word or "") + char
        elif char in "\"'":
            quote, word = char, word or ""
        elif char.isspace():
            if word is not None:
                args.append(word)
            word = None
        else:
            word = (word or "") + char
    return args if word is None else [*args, word]


def fill(body: str, args: Sequence[str]) -> str:
    """Insert arguments into a template in one pass; inserted text is not expanded again."""
    return _SLOT.sub(lambda slot: _slot_value(slot, args), body)


def _slot_value(slot: re.Match[str], args: Sequence[str]) -> str:
    if slot["start"] is not None:
        first = max(int(slot["start"]), 1) - 1
        last = len(args) if slot["length"] is None else first + int(slot["length"])
        return " ".join(args[first:last])
    name = slot["name"] or slot["place"] or slot["all"]
    if name.isdigit():
        place = int(name) - 1
        value = args[place] if 0 <= place < len(args) else ""
    else:
        value = " ".join(args)
    return value or slot["default"] or ""


def _template_files(source: Source, warnings: list[str]) -> list[Path]:
    if source.path.is_file():
        files = [source.path] if source.path.suffix == ".md" else []
    else:
        try:
            places = [source.path / name for name in source.reader.names(source.path)]
        except ConfigError as error:
            warnings.append(str(error))
            return []
        files = [path for path in places if path.suffix == ".md" and path.is_file()]
    if len(files) > MOST_FILES:
        warnings.append(f"{source.path}: only the first {MOST_FILES} templates are used")
    return [path for path in files[:MOST_FILES] if source.allow(path)]


def _read_template(path: Path, source: Source, warnings: list[str]) -> Template | None:
    try:
        header, body = front_matter.split(source.reader.text(path) or "")
    except (ConfigError, ValueError) as error:
        warnings.append(f"{path}: {error}")
        return None
    return Template(
        name=path.stem,
        description=front_matter.text_field(header, "description") or _first_line(body),
        body=body,
        path=path,
        info=source.info(path),
        argument_hint=front_matter.text_field(header, "argument-hint") or None,
    )


def _first_line(body: str) -> str:
    line = next((line.strip() for line in body.splitlines() if line.strip()), "")
    return line if len(line) <= LONGEST_DESCRIPTION else line[:LONGEST_DESCRIPTION] + "..."
