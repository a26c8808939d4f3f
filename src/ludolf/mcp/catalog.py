"""Read definitions of tools from servers and check arguments by them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ludolf.base import ReadOnlySchema, without_surrogates
from ludolf.mcp.cleaning import clean_text
from ludolf.mcp.definitions import ToolDefinition, digest_of, distinct_names, tool_name
from ludolf.mcp.schema_keywords import MAX_DESCRIPTION
from ludolf.mcp.schema_limits import is_cheap_to_apply, is_deeper
from ludolf.mcp.schemas import MAX_SCHEMA_BYTES, ModelSchema, UnusableSchema, model_schema
from ludolf.tools import schema as tool_schema

_MAX_TITLE = 200
_MAX_ORIGINAL_NAME = 512
_SHOWN_NAME = 80
_MAX_ORIGINAL_BYTES = 256 * 1024
# A validator accepts some 250 levels.
_MAX_NESTING = 200
_MAX_REMEMBERED = 2048
# By digest of a definition: whether its own schema can be applied.
_applicable: dict[str, bool] = {}


class ReadTools(msgspec.Struct, frozen=True):
    """Tools of a server, and a warning for each definition that is not used as it is."""

    tools: tuple[ToolDefinition, ...]
    warnings: tuple[str, ...]


def read_tools(server: str, raw: Sequence[Any]) -> ReadTools:
    """Return the usable tools of a `tools/list` result.

    A definition that is not a tool is dropped with a warning; the others are kept. A thousand large
    definitions take a few hundred milliseconds: run it in a thread where that matters.
    """
    found: dict[str, ToolDefinition] = {}
    warnings: list[str] = []
    for each in raw:
        try:
            definition, notes = _definition(server, each)
        except UnusableSchema as error:
            warnings.append(f'MCP server "{server}": a tool is left out: {error}.')
            continue
        warnings.extend(notes)
        first = found.setdefault(definition.tool, definition)
        if first.digest != definition.digest:
            shown = _shown(definition.tool)
            warnings.append(
                f'MCP server "{server}": the tool {shown} is defined twice; the first one is used.'
            )
    return ReadTools(distinct_names(found.values(), frozenset()), tuple(warnings))


# ---------------------------------------------------------------- one definition


def _definition(server: str, raw: Any) -> tuple[ToolDefinition, tuple[str, ...]]:
    if not isinstance(raw, dict):
        raise UnusableSchema(f"a {type(raw).__name__} is not a definition")
    name = raw.get("name")
    if not isinstance(name, str) or not name.strip():
        raise UnusableSchema("it has no name")
    shown = _shown(name)
    if without_surrogates(name) != name:
        raise UnusableSchema(f"the name {shown} has a lone surrogate")
    if len(name) > _MAX_ORIGINAL_NAME:
        raise UnusableSchema(f"the name {shown} is longer than {_MAX_ORIGINAL_NAME} characters")
    try:
        made = model_schema(raw.get("inputSchema"))
    except UnusableSchema as error:
        raise UnusableSchema(f"{shown}: {error}") from None
    annotations = raw.get("annotations")
    hints: Mapping[str, Any] = annotations if isinstance(annotations, dict) else {}
    definition = ToolDefinition(
        server=server,
        tool=name,
        name=tool_name(server, name),
        description=_text(raw.get("description"), MAX_DESCRIPTION),
        parameters=made.schema,
        arguments=_original(raw.get("inputSchema"), made),
        renamed=dict(made.renamed),
        read_only=hints.get("readOnlyHint") is True,
        title=_text(raw.get("title"), _MAX_TITLE) or _text(hints.get("title"), _MAX_TITLE),
        digest=_digest(raw),
    )
    return definition, tuple(_notes(server, shown, is_too_large=made.is_too_large))


def _notes(server: str, shown: str, *, is_too_large: bool) -> Iterator[str]:
    if is_too_large:
        yield (
            f'MCP server "{server}": the parameter schema of {shown} is larger than '
            f"{MAX_SCHEMA_BYTES // 1024} KB; the model sees the tool without it."
        )


def _text(value: Any, limit: int) -> str:
    return clean_text(value, limit) if isinstance(value, str) else ""


def _shown(name: str) -> str:
    return f'"{clean_text(name, _SHOWN_NAME)}"'


def _original(raw: Any, made: ModelSchema) -> dict[str, Any] | None:
    """Return the server's schema; None if it accepts anything or could not be stored."""
    if not isinstance(raw, dict) or not raw or is_deeper(raw, _MAX_NESTING):
        return None
    schema = dict(raw)
    required = schema.get("required")
    if isinstance(required, list) and not made.is_too_large:
        # A name that is required but not described: the model cannot know it.
        known = [made.renamed.get(name, name) for name in made.schema["properties"]]
        schema["required"] = [name for name in required if name in known]
    try:
        return schema if len(msgspec.json.encode(schema)) <= _MAX_ORIGINAL_BYTES else None
    except (ValueError, OverflowError):  # lone surrogates, large integers
        return None


def _digest(raw: Mapping[str, Any]) -> str:
    if is_deeper(raw, _MAX_NESTING):
        raw = {key: each for key, each in raw.items() if not is_deeper(each, _MAX_NESTING)}
    try:
        data = msgspec.json.encode(raw, order="deterministic")
    except (ValueError, OverflowError):
        data = json.dumps(raw, sort_keys=True).encode()
    return digest_of(data)


# ---------------------------------------------------------------- arguments


def check_arguments(tool: ToolDefinition, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments for the server, without empty values in place of optional ones.

    They are checked by the server's schema; by the model's if a validator cannot apply that one.

    Raises:
        ToolFailure: the arguments do not match; the text names the errors.
    """
    kept = without_placeholders(tool.parameters, args)
    if tool.arguments is None or not _is_applicable(tool.digest, tool.arguments):
        checked = tool_schema.check_arguments(tool.name, tool.parameters, kept)
        return _original_names(tool, checked)
    return tool_schema.check_arguments(tool.name, tool.arguments, _original_names(tool, kept))


def _original_names(tool: ToolDefinition, args: Mapping[str, Any]) -> dict[str, Any]:
    return {tool.renamed.get(name, name): each for name, each in args.items()}


def without_placeholders(schema: ReadOnlySchema, args: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out empty values of optional parameters that do not accept them."""
    required = schema.get("required", ())
    return {
        name: value
        for name, value in args.items()
        if name in required or not _is_empty(value) or _accepts(schema, name, value)
    }


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _accepts(schema: ReadOnlySchema, name: str, value: Any) -> bool:
    shape = schema["properties"].get(name)
    if not shape:
        return True
    import jsonschema_rs

    try:
        return jsonschema_rs.is_valid(shape, value, offline=True)
    except ValueError:
        return True


def _is_applicable(digest: str, schema: ReadOnlySchema) -> bool:
    if digest not in _applicable:
        if len(_applicable) >= _MAX_REMEMBERED:
            _applicable.clear()
        _applicable[digest] = is_cheap_to_apply(schema) and _is_valid_schema(schema)
    return _applicable[digest]


def _is_valid_schema(schema: ReadOnlySchema) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(dict(schema), offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return False
    return True
