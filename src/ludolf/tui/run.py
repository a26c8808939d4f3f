"""Start the terminal program in the way that the terminal can show it."""

import asyncio
import codecs
import locale
from collections.abc import Mapping

from ludolf.tui.start_options import StartOptions
from ludolf.tui.terminal import RawTerminal

_SIMPLE_TERMS = ("", "dumb", "unknown")
_C_LOCALES = ("C", "POSIX")


def run_terminal(start: StartOptions, *, plain: bool) -> int:
    """Converse at the terminal until the user leaves; returns the exit code.

    Args:
        start: How the program was started.
        plain: Write lines only, without a live area and colours.
    """
    terminal = RawTerminal(start.environ)
    encoding = terminal_encoding(start.environ)
    is_simple = start.environ.get("TERM", "") in _SIMPLE_TERMS or terminal.known_size() is None
    if plain or is_simple:
        from ludolf.tui.plain_mode import run_plain

        return asyncio.run(run_plain(start, encoding))
    with terminal:
        return asyncio.run(_run_live(start, terminal, encoding))


async def _run_live(start: StartOptions, terminal: RawTerminal, encoding: str) -> int:
    from ludolf.tui.app import TerminalApp
    from ludolf.tui.bindings import load_bindings

    bindings, problems = load_bindings(start.agent_dir)
    app = TerminalApp(start, terminal, bindings, encoding)
    for text in (*problems, app.view.problem):
        if text:
            app.say(text, "warning")
    return await app.run()


def terminal_encoding(environ: Mapping[str, str]) -> str:
    """Return the encoding of the terminal by the locale; UTF-8 if no locale is chosen."""
    lang = environ.get("LANG", "")
    kind = environ.get("LC_CTYPE", "")
    if kind == "C.UTF-8" and lang in _C_LOCALES:
        kind = ""  # Python has set it, since it does not like the locale C
    name = environ.get("LC_ALL") or kind or lang
    if not name:
        return "utf-8"
    if name in _C_LOCALES:
        return "ascii"
    _, dot, codeset = name.partition(".")
    try:
        return codecs.lookup(codeset.partition("@")[0] if dot else locale.getencoding()).name
    except LookupError:
        return "utf-8"
