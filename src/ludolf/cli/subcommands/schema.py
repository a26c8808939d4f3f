"""`ludolf schema`: print JSON Schema or TypeScript types of the frames."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ludolf.base import Schema
from ludolf.protocol.dialects import NAMES
from ludolf.protocol.wire.published import SERVER_SCHEMAS, schemas
from ludolf.protocol.wire.schema import text_of
from ludolf.protocol.wire.typescript import typescript


def run(words: Sequence[str]) -> int:
    """Run `ludolf schema WORDS`; returns the exit code."""
    arguments = _parser().parse_args(words)
    selected = _selected(arguments)
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
        description="Print JSON Schema or TypeScript types of the frames: those of RPC mode, and "
        "those of `ludolf serve`.",
    )
    parser.add_argument(
        "--dialect", choices=NAMES, help="dialect of the frames to a host (default: all)"
    )
    parser.add_argument(
        "--direction", choices=("in", "out", "both"), default="both", help="default: both"
    )
    parser.add_argument("--server", action="store_true", help="only the frames of `ludolf serve`")
    parser.add_argument("--typescript", action="store_true", help="print TypeScript types instead")
    return parser


def _selected(arguments: Namespace) -> dict[str, Schema]:
    """Return the schemas of RPC mode and of the server; a dialect or a direction is of RPC mode."""
    dialect: str | None = arguments.dialect
    direction: str = arguments.direction
    has_server = arguments.server or (dialect is None and direction == "both")

    def is_selected(name: str) -> bool:
        if name in SERVER_SCHEMAS:
            return bool(has_server) and direction in ("both", name.removeprefix("server-"))
        if arguments.server:
            return False
        if name == "in":
            return direction != "out"
        return direction != "in" and dialect in (None, name.removeprefix("out-"))

    return {name: schema for name, schema in schemas().items() if is_selected(name)}
