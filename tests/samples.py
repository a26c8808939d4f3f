"""Values of any wire type, made of its description."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec import inspect

from ludolf.agent.tool import Tool, ToolContext, ToolOutput

_DEEP = 8
_ENTRY = b'{"type":"custom","id":"e1","parentId":null,"timestamp":"","customType":"x"}'


def sample(kind: Any, *, whole: bool) -> Any:
    """A value of this type; `whole` fills optional fields and takes the last of a union."""
    return _sample(inspect.type_info(kind), whole, 0)


def _sample(kind: inspect.Type, whole: bool, depth: int) -> Any:
    deeper = depth + 1
    match kind:
        case inspect.StructType(cls=cls, fields=fields):
            given = [field for field in fields if whole or field.required]
            return cls(**{field.name: _sample(field.type, whole, deeper) for field in given})
        case inspect.CustomType(cls=cls):
            return sample(get_args(cls.known)[0], whole=False)  # type: ignore[attr-defined]  # ours
        case inspect.UnionType(types=types):
            real = [one for one in types if not isinstance(one, inspect.NoneType)]
            return _sample(real[-1 if whole else 0], whole, deeper)
        case inspect.Metadata(type=inner):
            return _sample(inner, whole, deeper)
        case inspect.VarTupleType(item_type=item):
            return (_sample(item, whole, deeper),) if whole and depth < _DEEP else ()
        case inspect.ListType(item_type=item):
            return [_sample(item, whole, deeper)]
        case inspect.DictType(value_type=item):
            return {"schlüssel": _sample(item, whole, deeper)}
        case inspect.LiteralType(values=values):
            return values[-1 if whole else 0]
        case _:
            return _plain(kind)


def _plain(kind: inspect.Type) -> Any:
    match kind:
        case inspect.StrType():
            return 'a "quoted" \u2028 line\n'
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 2**53
        case inspect.FloatType():
            return 0.5
        case inspect.RawType():
            return msgspec.Raw(_ENTRY)
        case inspect.AnyType():
            return {"x": [1, None, "y"]}
        case _:
            raise NotImplementedError(f"no sample for {kind}")


async def ignore(partial: ToolOutput) -> None:
    """Take the progress of a tool and do nothing."""
    del partial


async def run_tool(tool: Tool, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    """The output of a call, whose arguments the tool may convert first."""
    return await tool.execute(await tool.prepare(args), ctx)
