"""`ludolf schema`: print JSON Schema or TypeScript types of the frames."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ludolf.protocol.dialects import NAMES

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ludolf.base import Schema


def run(words: Sequence[str]) -> int:
    """Run `ludolf schema WORDS`; returns the exit code."""
    try:
        arguments = _parser().parse_args(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    schemas = _selected(arguments.dialect, arguments.direction)
    sys.stdout.write(_typescript(schemas) if arguments.typescript else _json(schemas))
    return 0


def _parser() -> "ArgumentParser":
    from argparse import ArgumentParser

    parser = ArgumentParser(
        prog="ludolf schema",
        allow_abbrev=False,
        description="Print JSON Schema or TypeScript types of the frames.",
    )
    parser.add_argument(
        "--dialect", choices=NAMES, help="dialect of the frames to a host (default: all)"
    )
    parser.add_argument(
        "--direction", choices=("in", "out", "both"), default="both", help="default: both"
    )
    parser.add_argument("--typescript", action="store_true", help="print TypeScript types instead")
    return parser


def _selected(dialect: str | None, direction: str) -> "dict[str, Schema]":
    from ludolf.protocol.wire.schema import schemas

    def is_selected(name: str) -> bool:
        if name == "in":
            return direction != "out"
        return direction != "in" and dialect in (None, name.removeprefix("out-"))

    return {name: schema for name, schema in schemas().items() if is_selected(name)}


def _typescript(schemas: "dict[str, Schema]") -> str:
    from ludolf.protocol.wire.typescript import typescript

    return typescript(schemas)


def _json(schemas: "dict[str, Schema]") -> str:
    """Render one schema as is, several as an object keyed by file name."""
    from ludolf.protocol.wire.schema import text_of

    if len(schemas) == 1:
        return text_of(*schemas.values())
    return text_of(schemas)
