"""`ludolf web`: the server and its page on this machine, for the current folder."""

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ludolf.cli.browser import LeadPage
from ludolf.cli.subcommands.serve import add_serve_options, serve_options
from ludolf.config.settings.home import current_folder
from ludolf.serve.guard import TokenFile
from ludolf.serve.options import ServeOptions
from ludolf.serve.run import run_serve

_SIGINT = 130


def run(words: Sequence[str]) -> int:
    """Serve the page until Ctrl-C; returns the exit code.

    Raises:
        ConfigError: the port or the token file cannot be used.
    """
    arguments, rest = _parser().parse_known_args(words)
    options = serve_options(arguments, rest)
    options.http = (arguments.listen, arguments.port)
    if not options.roots:
        options.roots = (current_folder(),)
    lead = LeadPage()
    try:
        code = run_serve(options, partial(_announce, options, lead if arguments.open else None))
    finally:
        lead.close()
    # Ctrl-C is the normal way to end this command, so it is not a failure.
    return 0 if code == _SIGINT else code


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="ludolf web",
        allow_abbrev=False,
        description="Work with sessions in the browser. Without --root they work in the current "
        "folder and below it. All options of ludolf for models, tools, safety and resources can "
        "be given.",
    )
    add = parser.add_argument
    add("--port", type=int, default=0, metavar="N", help="default: any free port")
    add("--listen", default="127.0.0.1", metavar="HOST", help="default: this machine only")
    add("--open", action="store_true", help="open the page in the browser")
    add_serve_options(parser)
    return parser


def _announce(options: ServeOptions, lead: LeadPage | None, serving: Mapping[str, Any]) -> bytes:
    """Return the address for the user. The fragment with the token is never sent anywhere."""
    url = f"{serving['url']}/#token={TokenFile(options.agent_dir).load()}"
    how = "Open this address in a browser (--open does it). "
    if lead is not None:
        lead.open(url)
        how = ""
    return f"{url}\n{how}Ctrl-C ends it. Keep the address secret.\n".encode()
