"""The YAML header of a Markdown file, read as YAML 1.2: `yes` and `on` are words."""

import re
from functools import cache
from typing import Any

_HEADER = re.compile(r"\A---[ \t]*\n(.*?)(?:^)---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_INT = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


def split(text: str) -> tuple[dict[str, Any], str]:
    """The header as a dict, and the body, trimmed. Without a header all is body, as it stands.

    Raises:
        ValueError: the header is not YAML, or not a mapping.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found = _HEADER.match(text)
    if found is None:
        return {}, text
    return _load(found[1]), text[found.end() :].strip()


def text_field(header: dict[str, Any], name: str) -> str:
    """A field as text; anything that is not a scalar counts as absent."""
    value = header.get(name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() if isinstance(value, str | int | float) else ""


def _load(source: str) -> dict[str, Any]:
    import yaml

    try:
        value = yaml.load(source, Loader=_loader())
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"invalid front matter: {_one_line(error)}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("invalid front matter: expected keys and values")
    return value


@cache
def _loader() -> Any:
    import yaml

    parent: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Core(parent):  # type: ignore[misc]
        """Resolves plain words as the YAML 1.2 core schema does."""

        yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - PyYAML's own shape

    Core.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("tTfF"))
    Core.add_implicit_resolver("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""])
    Core.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
    Core.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    Core.add_constructor("tag:yaml.org,2002:int", _construct_int)
    return Core


def _construct_int(loader: Any, node: Any) -> int:
    # YAML 1.1 would read a leading zero as octal and colons as base sixty.
    text = loader.construct_scalar(node)
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text, 10)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
