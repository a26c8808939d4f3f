"""`ludolf schema`: print JSON Schema or TypeScript types of the frames."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from ludolf.base import Schema
from ludolf.protocol.dialects import NAMES
from ludolf.protocol.wire.schema import schemas, text_of
from ludolf.protocol.wire.typescript import typescript


def run(words: Sequence[str]) -> int:
    """Run `ludolf schema WORDS`; returns the exit code."""
    arguments = _parser().parse_args(words)
    selected = _selected(arguments.dialect, arguments.direction)
    if arguments.typescript:
        sys.stdout.write(typescript(selected))
    else:
        # One schema as is, several as an object with the names of their files.
        sys.stdout.write(text_of(*selected.values()) if len(selected) == 1 else text_of(selected))
    return 0


def _parser() -> ArgumentParser:
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


def _selected(dialect: str | None, direction: str) -> dict[str, Schema]:
    def is_selected(name: str) -> bool:
        if name == "in":
            return direction != "out"
        return direction != "in" and dialect in (None, name.removeprefix("out-"))

    return {name: schema for name, schema in schemas().items() if is_selected(name)}
