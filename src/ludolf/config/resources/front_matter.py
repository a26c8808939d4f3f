"""Parse the YAML header of a Markdown file as YAML 1.2: `yes` and `on` are strings."""

import re
from functools import cache
from typing import Any

from ludolf.base.patterns import lazy_pattern

# Far more than any header needs; each limit keeps the YAML library from overflowing its stack or
# from building values that grow exponentially.
LONGEST_HEADER = 64 * 1024
_DEEPEST = 32
_MOST_ALIASES = 16
_LONGEST_NUMBER = 64
_HEADER = lazy_pattern(r"\A---[ \t]*\n(.*?)(?:^)---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_BOOL = r"^(?:true|True|TRUE|false|False|FALSE)$"
_NULL = r"^(?:~|null|Null|NULL|)$"
_INT = r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"
_FLOAT = (
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


def split(text: str) -> tuple[dict[str, Any], str]:
    """Split a file into its header and its trimmed body; without a header, all is body.

    Raises:
        ValueError: the header is not YAML, not a mapping, or too large.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    match = _HEADER.match(text)
    if match is None:
        return {}, text
    return _load(match[1]), text[match.end() :].strip()


def text_field(header: dict[str, Any], name: str) -> str:
    """Return a field as text; None if it is not a scalar."""
    value = header.get(name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() if isinstance(value, str | int | float) else ""


def _load(source: str) -> dict[str, Any]:
    import yaml

    if len(source) > LONGEST_HEADER:
        raise ValueError(f"invalid front matter: longer than {LONGEST_HEADER:,} characters")
    try:
        _check_events(source)
        value = yaml.load(source, Loader=_loader())
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"invalid front matter: {_one_line(error)}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("invalid front matter: expected keys and values")
    return value


def _check_events(source: str) -> None:
    """Check the parse events of a header before values are built from it.

    Raises:
        ValueError: the header is nested too deeply, or uses tags or many aliases.
    """
    import yaml

    depth = aliases = 0
    for event in yaml.parse(source, Loader=_loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
        if depth > _DEEPEST:
            raise ValueError("invalid front matter: nested too deeply")
        if aliases > _MOST_ALIASES:
            raise ValueError(f"invalid front matter: more than {_MOST_ALIASES} aliases")
        # PyYAML raises various errors for a value that does not match its tag.
        if getattr(event, "tag", None) is not None:
            raise ValueError("invalid front matter: tags are not supported")


@cache
def _loader() -> Any:
    import yaml

    parent: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Core(parent):  # type: ignore[misc]
        """Loader that resolves plain scalars by the YAML 1.2 core schema."""

        yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - PyYAML's own shape

    Core.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(_BOOL), list("tTfF"))
    Core.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(_NULL), ["~", "n", "N", ""])
    Core.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(_INT), list("-+0123456789"))
    Core.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(_FLOAT), list("-+.0123456789"))
    Core.add_constructor("tag:yaml.org,2002:int", _construct_int)
    return Core


def _construct_int(loader: Any, node: Any) -> int | str:
    # YAML 1.1 would read a leading zero as octal and colons as base sixty.
    text: str = loader.construct_scalar(node)
    if len(text) > _LONGEST_NUMBER:
        return text
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text, 10)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
