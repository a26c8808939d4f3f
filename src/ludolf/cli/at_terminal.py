"""Start the terminal program from the command line."""

import os

from ludolf.base import ConfigError
from ludolf.config.settings.arguments import Arguments
from ludolf.config.settings.home import current_folder, find_home
from ludolf.config.settings.session_request import session_choices
from ludolf.config.settings.settings import SettingsFiles
from ludolf.tui.run import run_terminal
from ludolf.tui.start_options import FirstPrompt, StartOptions


def run_at_terminal(arguments: Arguments) -> int:
    """Converse at the terminal; returns the exit code.

    Raises:
        ConfigError: the folder is gone, or a file of the command line is missing.
    """
    if arguments.on_eof is not None:
        raise ConfigError("--on-eof needs --mode rpc")
    arguments.cwd = current_folder()
    session = "last" if arguments.continue_last else arguments.session
    start = _start_options(arguments)
    start.session = session or "new"
    start.choices = session_choices(arguments)
    start.address = arguments.connect or os.environ.get("LUDOLF_CONNECT") or None
    start.messages = _prompts(arguments)
    return run_terminal(start, plain=arguments.plain)


def attach_at_terminal(address: str, session: str, *, view: bool) -> int:
    """Use a session of a server at the terminal; returns the exit code."""
    arguments = Arguments(cwd=current_folder())
    start = _start_options(arguments)
    start.session, start.address, start.attaches, start.view = session, address, True, view
    return run_terminal(start, plain=False)


def _start_options(arguments: Arguments) -> StartOptions:
    home = find_home(arguments.cwd, os.environ)
    settings = SettingsFiles(home).user
    terminal = settings.terminal
    has_colour = not (arguments.no_color or os.environ.get("NO_COLOR"))
    return StartOptions(
        cwd=str(arguments.cwd),
        agent_dir=home.agent,
        environ=os.environ,
        theme=arguments.theme or settings.theme,
        themes=tuple(home.agent / home.expand(each) for each in settings.themes),
        has_colour=has_colour,
        images=terminal.images,
        notify=terminal.notify,
        aborts=terminal.on_hangup == "abort",
        show_thinking=terminal.show_thinking,
    )


def _prompts(arguments: Arguments) -> tuple[FirstPrompt, ...]:
    """Return the prompts of the command line; words without spaces are one prompt."""
    if arguments.files:
        return _prompts_with_files(arguments)
    words = arguments.messages
    if len(words) > 1 and all(len(word.split()) == 1 for word in words):
        words = [" ".join(words)]
    return tuple(FirstPrompt(word) for word in words)


def _prompts_with_files(arguments: Arguments) -> tuple[FirstPrompt, ...]:
    import msgspec

    from ludolf.cli.one_shot import gather_prompts

    prompts = gather_prompts(arguments)
    return tuple(
        FirstPrompt(each.text, tuple(msgspec.to_builtins(image) for image in each.extra))
        for each in prompts
    )
