"""`ludolf schema`: print the JSON Schema of the frames, or TypeScript types of them."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ludolf.protocol.dialects import DEFAULT, NAMES

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ludolf.protocol.wire.definitions import Schema


def run(words: Sequence[str]) -> int:
    """What `ludolf schema WORDS` asks for; returns the exit code."""
    try:
        arguments = _parser().parse_args(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    chosen = _chosen(arguments.dialect, arguments.direction)
    sys.stdout.write(_typescript(chosen) if arguments.typescript else _json(chosen))
    return 0


def _parser() -> "ArgumentParser":
    from argparse import ArgumentParser

    parser = ArgumentParser(
        prog="ludolf schema",
        allow_abbrev=False,
        description="Print the JSON Schema of the frames, or TypeScript types of them.",
    )
    parser.add_argument("--dialect", choices=NAMES, help=f"of what is said (default: {DEFAULT})")
    parser.add_argument(
        "--direction", choices=("in", "out", "both"), default="both", help="default: both"
    )
    parser.add_argument(
        "--typescript", action="store_true", help="as types; of all dialects unless one is named"
    )
    return parser


def _chosen(dialect: str | None, direction: str) -> "dict[str, Schema]":
    from ludolf.protocol.wire.schema import schemas

    def wanted(name: str) -> bool:
        if name == "in":
            return direction != "out"
        return direction != "in" and dialect in (None, name.removeprefix("out-"))

    return {name: schema for name, schema in schemas().items() if wanted(name)}


def _typescript(chosen: "dict[str, Schema]") -> str:
    from ludolf.protocol.wire.typescript import typescript

    return typescript(chosen)


def _json(chosen: "dict[str, Schema]") -> str:
    """One schema as it is; several as an object of them, by the names of their files."""
    from ludolf.protocol.wire.schema import text_of

    if len(chosen) == 1:
        return text_of(*chosen.values())
    return text_of(chosen)
