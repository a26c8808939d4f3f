"""Whatever is written to a host or to disk can be read back as the same value."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec
import pytest
from msgspec import inspect

import ludolf.agent.events
import ludolf.agent.tool
import ludolf.ai.messages
import ludolf.ai.models
import ludolf.protocol.commands
import ludolf.protocol.events
import ludolf.session.entries
from ludolf.base import Value, dumps, loads
from ludolf.protocol.commands import COMMANDS, ROWS
from ludolf.rpc.connection import FUNCTIONS
from ludolf.rpc.handlers import HANDLERS, load_handlers

WIRE = (
    ludolf.ai.messages,
    ludolf.ai.models,
    ludolf.agent.tool,
    ludolf.agent.events,
    ludolf.protocol.commands,
    ludolf.protocol.events,
    ludolf.session.entries,
)
# Told or stored only: their parts that others own are read by hand, not by a decoder.
NOT_READ_BACK = (ludolf.session.entries.MessageBody, ludolf.protocol.events.ShellOutput)


def _structs(module: ModuleType) -> Iterator[type[Value]]:
    for found in vars(module).values():
        is_struct = isinstance(found, type) and issubclass(found, Value)
        if is_struct and found.__module__ == module.__name__ and found not in NOT_READ_BACK:
            yield found


STRUCTS = [struct for module in WIRE for struct in _structs(module)]


def _sample(kind: inspect.Type, *, whole: bool) -> Any:
    """A value of this type; `whole` fills optional fields and takes the last of a union."""
    match kind:
        case inspect.StructType(cls=cls, fields=fields):
            given = [field for field in fields if whole or field.required]
            return cls(**{field.name: _sample(field.type, whole=whole) for field in given})
        case inspect.UnionType(types=types):
            real = [one for one in types if not isinstance(one, inspect.NoneType)]
            return _sample(real[-1 if whole else 0], whole=whole)
        case inspect.VarTupleType(item_type=item):
            return (_sample(item, whole=whole),) if whole else ()
        case inspect.ListType(item_type=item):
            return [_sample(item, whole=whole)]
        case inspect.DictType(value_type=item):
            return {"schlüssel": _sample(item, whole=whole)}
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
        case inspect.IntType(le=most):
            return 2**53 if most is None else most
        case inspect.FloatType():
            return 0.1
        case inspect.RawType():
            return msgspec.Raw(b'{"a":[1,null]}')
        case inspect.AnyType():
            return {"x": [1, None, "y"]}
        case _:
            raise NotImplementedError(f"no sample for {kind}")


@pytest.mark.parametrize("whole", [True, False], ids=["all fields", "required fields"])
@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_value_survives_the_wire(struct: type[Value], whole: bool) -> None:
    value = _sample(inspect.type_info(struct), whole=whole)
    again = msgspec.json.decode(dumps(value), type=struct)
    assert again == value
    # By value, not by bytes: a whole float is read back as 0.0 and was perhaps written as 0.
    assert loads(dumps(again)) == loads(dumps(value))


@pytest.mark.parametrize("module", WIRE, ids=lambda module: module.__name__)
def test_no_two_values_of_a_module_go_by_the_same_name(module: ModuleType) -> None:
    tags = [struct.__struct_config__.tag for struct in _structs(module)]
    named = [tag for tag in tags if tag is not None]
    assert sorted(named) == sorted(set(named))


def test_names_on_the_wire_are_camel_case() -> None:
    wrong = [
        f"{struct.__name__}.{name}"
        for struct in STRUCTS
        for name in struct.__struct_encode_fields__
        if "_" in name or name[:1].isupper()
    ]
    assert not wrong, "\n".join(wrong)


def test_every_command_has_a_handler() -> None:
    load_handlers()
    assert sorted(FUNCTIONS) == sorted(spec.name for spec in ROWS)
    assert {name: handler.spec for name, handler in HANDLERS.items()} == COMMANDS


def test_no_two_commands_share_a_name() -> None:
    assert len(COMMANDS) == sum(1 + len(spec.aliases) for spec in ROWS)


def test_commands_without_a_reply_have_no_answer() -> None:
    assert not [spec.name for spec in ROWS if spec.unanswered and spec.answer]
