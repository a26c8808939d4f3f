"""`ludolf serve`: many sessions and many clients in one process."""

import os
import re
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path

from ludolf.config.settings.arguments import parse
from ludolf.config.settings.home import agent_dir, current_folder
from ludolf.config.settings.server_places import default_socket
from ludolf.serve.options import PrivateOptions, ServeOptions
from ludolf.serve.run import run_serve

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_ADDRESS = re.compile(r"(?:(\[[0-9a-fA-F:.]+\]|[^:\s]+):)?(\d{1,5})")


def run(words: Sequence[str]) -> int:
    """Run `ludolf serve WORDS`; returns the exit code."""
    arguments, rest = _parser().parse_known_args(words)
    is_alone = arguments.stdio or arguments.private is not None
    has_socket = arguments.socket is not None or not is_alone
    socket = arguments.socket or default_socket(os.environ)
    options = serve_options(arguments, rest)
    options.socket = socket.absolute() if has_socket else None
    options.http = arguments.http
    options.stdio = arguments.stdio
    options.private = _private(arguments)
    return run_serve(options)


def serve_options(arguments: Namespace, rest: list[str]) -> ServeOptions:
    """Return the options of a server without a door; `rest` are those of its sessions."""
    options = parse(rest)
    options.cwd = current_folder()
    return ServeOptions(
        options=options,
        agent_dir=agent_dir(os.environ),
        words=tuple(rest),
        roots=tuple(Path(root).absolute() for root in arguments.root),
        unload_seconds=arguments.unload_after,
        max_loaded=arguments.max_loaded,
        drain_seconds=arguments.drain,
        origins=tuple(arguments.origin),
        hosts=tuple(arguments.host),
        tls=tuple(map(Path, arguments.tls)) if arguments.tls else None,  # type: ignore[arg-type]  # argparse takes two
        tls_by_proxy=arguments.tls_by_proxy,
        new_token=arguments.new_token,
    )


def _private(arguments: Namespace) -> PrivateOptions | None:
    if arguments.private is None:
        return None
    return PrivateOptions(arguments.private, arguments.on_hangup == "abort")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="ludolf serve",
        allow_abbrev=False,
        description="Keep many sessions in one process, for many clients that may come and go. "
        "All options of ludolf for models, tools, safety and resources can be given; they apply "
        "to sessions whose client chooses no others.",
    )
    add = parser.add_argument
    add("--socket", type=Path, metavar="PATH", help="Unix socket to listen on")
    add("--http", type=_address, metavar="[HOST:]PORT", help="also serve HTTP and WebSocket")
    add("--stdio", action="store_true", help="serve one client on stdin and stdout")
    add("--private", type=int, metavar="FD", help=SUPPRESS)
    add("--on-hangup", choices=("finish", "abort"), default="finish", help=SUPPRESS)
    add_serve_options(parser)
    return parser


def add_serve_options(parser: ArgumentParser) -> None:
    """Add the options that every server has."""
    add = parser.add_argument
    add("--root", action="append", default=[], metavar="DIR", help="folder for sessions")
    add("--unload-after", type=_duration, default=900.0, metavar="TIME", help="default: 15m")
    add("--max-loaded", type=_count, default=256, metavar="N", help="sessions in memory")
    add("--drain", type=_duration, default=0.0, metavar="TIME", help="time for runs at the end")
    add("--origin", action="append", default=[], metavar="URL", help="web page that may connect")
    add("--host", action="append", default=[], metavar="NAME", help="name of this server")
    add("--tls", nargs=2, metavar=("CERT", "KEY"), help="certificate and key in PEM files")
    add("--tls-by-proxy", action="store_true", help="a reverse proxy in front encrypts")
    add("--new-token", action="store_true", help="replace the token; old clients are refused")


def _duration(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is not a time such as 30s, 15m or 2h")
    return float(found[1]) * _UNITS[found[2]]


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _address(text: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise ArgumentTypeError(f"{text!r} is not PORT or HOST:PORT")
    return (found[1] or "127.0.0.1").strip("[]"), int(found[2])
