"""Entry point of the `ludolf` command: parse arguments, run a mode, exit with its code."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ludolf import __version__
from ludolf.base import ConfigError, LudolfError
from ludolf.cli.dialect import dialect_of
from ludolf.config.settings.arguments import Arguments, first_word, parse

if TYPE_CHECKING:
    from ludolf.config.settings.home import Home
    from ludolf.engine.bundles import Bundles

USAGE_ERROR = 1
MISUSE = 2
CLOSED_PIPE = 128 + signal.SIGPIPE
# Start-up allocates many objects and frees few; garbage collection took a tenth of its time.
NEW_OBJECTS_PER_COLLECTION = 20_000


def main(words: Sequence[str] | None = None) -> None:
    """Run the `ludolf` command and exit."""
    gc.set_threshold(NEW_OBJECTS_PER_COLLECTION)
    words = sys.argv[1:] if words is None else words
    try:
        _fill_descriptors()
        _guard_terminal()
        code = run(words)
    except LudolfError as error:
        if sys.stderr is not None:
            sys.stderr.write(f"Error: {error}\n")
        if sys.stdout is not None and _wants_json(words):
            from ludolf.cli.run_result import early_failure

            sys.stdout.write(early_failure(error).decode())
        code = USAGE_ERROR
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = CLOSED_PIPE
    _leave(code)


def run(words: Sequence[str]) -> int:
    """Run the mode or subcommand that the arguments select; returns the exit code.

    Raises:
        LudolfError: the run could not start; the text is for the user.
    """
    if words and words[0] == "acp" and "-h" not in words and "--help" not in words:
        return run(("--mode", *words))
    if words and _is_subcommand(words[0]):
        return _run_subcommand((), words)
    words = _in_our_words(words)
    # Only the first word can be a subcommand, and none after -p or --mode: a message must not be
    # mistaken for one.
    at = first_word(words)
    if at is not None:
        if words[at] == "acp":
            return run((*words[:at], "--mode", *words[at:]))
        if _is_subcommand(words[at]):
            return _run_subcommand(words[:at], words[at:])
        arguments = parse(words)
        if _refuses_slip(words[at], alone=arguments.messages == [words[at]]):
            return MISUSE
        return _run_mode(arguments)
    return _run_mode(parse(words))


def _run_mode(arguments: Arguments) -> int:
    if arguments.api_key:
        from ludolf.cli.process_list import hide

        hide(arguments.api_key)
    if arguments.version:
        sys.stdout.write(_version_of(arguments.rpc_dialect or dialect_of()) + "\n")
        return 0
    if arguments.help:
        from ludolf.cli.help import HELP

        sys.stdout.write(HELP)
        return 0
    for text in arguments.warnings:
        sys.stderr.write(f"Warning: {text}\n")
    if arguments.offline:
        os.environ["PI_OFFLINE"] = "1"
    if arguments.list_models is not None:
        from ludolf.cli import subcommands

        return subcommands.run("models", ["list", arguments.list_models])
    if arguments.export is not None:
        from ludolf.cli.subcommands.sessions import export_named

        return export_named(arguments.session_dir, arguments.export, *arguments.messages[:1])
    return _start(arguments)


def _wants_json(words: Sequence[str]) -> bool:
    """Return whether print mode writes JSON, also if the arguments cannot be parsed."""
    options = words[: words.index("--")] if "--" in words else words
    if any(word.partition("=")[0] == "--mode" for word in options):
        return False
    return "--output-format=json" in options or ("--output-format", "json") in pairwise(options)


def _is_subcommand(word: str) -> bool:
    if not word[:1].isalpha():
        return False
    from ludolf.cli.subcommands import MODULES

    return word in MODULES


def _refuses_slip(word: str, *, alone: bool) -> bool:
    from ludolf.cli.subcommands import refuses_slip

    return refuses_slip(word, alone=alone)


def _run_subcommand(options: Sequence[str], words: Sequence[str]) -> int:
    """Run a subcommand with the options before it that apply to it."""
    from ludolf.cli import subcommands

    given = parse(options)
    if given.version or given.help:
        return run(options)
    if given.offline:
        os.environ["PI_OFFLINE"] = "1"
    if given.session_dir is not None:
        os.environ["LUDOLF_CODING_AGENT_SESSION_DIR"] = given.session_dir
    return subcommands.run(words[0], words[1:])


def _version_of(dialect: str) -> str:
    """Return the version; hosts of omp look for its name before it."""
    return f"omp/{__version__}" if dialect == "omp" else __version__


def _start(arguments: Arguments) -> int:
    _check_output(arguments)
    if _is_at_terminal(arguments):
        from ludolf.cli.at_terminal import run_at_terminal

        return run_at_terminal(arguments)
    _install_named(arguments)
    if arguments.mode == "acp":
        return _serve_editor(arguments)
    address = _server_address(arguments)
    if address is not None:
        from ludolf.cli.connect import run_connected

        return run_connected(arguments, arguments.rpc_dialect or dialect_of(), address)
    from ludolf.config.settings.home import current_folder

    arguments.cwd = current_folder()
    dialect = arguments.rpc_dialect or dialect_of()
    prepare = _launch_scripts(arguments)
    if arguments.mode == "rpc":
        from ludolf.rpc.server import run_rpc

        return run_rpc(arguments, dialect, prepare)
    from ludolf.cli.one_shot import run_one_shot

    if arguments.session is not None:
        _warn_of_new_file(str(arguments.cwd), arguments.session)
    as_events = dialect if arguments.mode == "json" else None
    return run_one_shot(arguments, dialect=as_events, prepare=prepare)


def _launch_scripts(arguments: Arguments) -> "Callable[[Bundles], None] | None":
    """Start Node if there may be script extensions, before the modules of the mode are imported."""
    from ludolf.config.settings.home import find_home

    home = find_home(arguments.cwd, os.environ)
    named = any(not path.endswith(".py") for path in arguments.extensions)
    if not named and (arguments.no_extensions or not _has_own_extensions(home)):
        return None
    from ludolf.cli.script_start import launch_scripts

    return launch_scripts(arguments, home)


def _has_own_extensions(home: "Home") -> bool:
    try:
        settings = home.settings_file.read_bytes()
    except OSError:
        settings = b""
    listed = b'"packages"' in settings or b'"extensions"' in settings
    return listed or (home.agent / "extensions").is_dir()


def _install_named(arguments: Arguments) -> None:
    """Install the packages of `-e npm:…`; skills and prompt templates of packages count as named.

    Raises:
        LudolfError: a package cannot be installed.
    """
    if not any(":" in path or os.path.isdir(path) for path in arguments.extensions):
        return
    from ludolf.cli.packages.temporary import named_resources
    from ludolf.config.settings.home import current_folder, find_home

    home = find_home(current_folder(), os.environ)
    named = named_resources(home, arguments.extensions)
    arguments.skills = (*arguments.skills, *named.skills)
    arguments.prompt_templates = (*arguments.prompt_templates, *named.prompts)


def _is_at_terminal(arguments: Arguments) -> bool:
    """Return whether a person can converse here: print mode is for all else."""
    if arguments.mode is not None or arguments.print_mode:
        return False
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


def _check_output(arguments: Arguments) -> None:
    """Raises:
    ConfigError: an option of print mode does not fit the mode.
    """
    if arguments.output_format != "text" and arguments.mode not in (None, "text"):
        raise ConfigError(f"--output-format needs print mode (-p), not --mode {arguments.mode}.")
    if arguments.output_schema is not None and arguments.mode in ("rpc", "acp"):
        raise ConfigError(
            f"--output-schema needs print mode (-p), not --mode {arguments.mode}. Hosts send "
            "outputSchema with a prompt."
        )


def _server_address(arguments: Arguments) -> str | None:
    """Return the address of the server that has the session; None: this process runs it.

    Raises:
        ConfigError: an argument does not fit the mode.
    """
    if arguments.mode != "rpc":
        if arguments.connect is not None or arguments.on_eof is not None:
            text = "--connect needs a terminal or --mode rpc; --on-eof needs --mode rpc"
            raise ConfigError(text)
        return None
    if arguments.files:
        raise ConfigError("@file arguments are not supported in RPC mode")
    address = arguments.connect or os.environ.get("LUDOLF_CONNECT")
    if arguments.on_eof is not None and not address:
        raise ConfigError("--on-eof needs --connect: without a server, the end of input aborts")
    return address or None


def _serve_editor(arguments: Arguments) -> int:
    """Serve a client of the Agent Client Protocol, or log in at the terminal that it opened."""
    if arguments.flags.pop("--login", None) is not None:
        from ludolf.cli import subcommands

        return subcommands.run("auth", ("login",))
    if arguments.messages or arguments.files:
        sys.stderr.write("Error: ACP mode takes no messages and no @file arguments\n")
        return USAGE_ERROR
    from ludolf.acp.run import run_acp

    return run_acp(arguments)


def _warn_of_new_file(cwd: str, session: str) -> None:
    """Warn a user who may have misspelt a path; hosts and programs create files this way."""
    from ludolf.base import user_dir
    from ludolf.session.finder import as_path

    path = as_path(cwd, session, user_dir(os.environ))
    if path is not None and not path.exists():
        sys.stderr.write(f"Warning: no session file {path}; a new session is created there.\n")


def _in_our_words(words: Sequence[str]) -> Sequence[str]:
    """Translate the flags of omp or xcsh if their dialect is selected."""
    if dialect_of(words) not in ("omp", "xcsh"):
        return words
    from ludolf.config.settings.omp_arguments import in_our_words

    translated = in_our_words(words)
    for text in translated.warnings:
        sys.stderr.write(f"Warning: {text}\n")
    if translated.cwd is not None:
        try:
            os.chdir(translated.cwd)
        except OSError as error:
            raise ConfigError(f"--cwd {translated.cwd}: {error.strerror}") from error
    return translated.words


def _fill_descriptors() -> None:
    """Open descriptors 0 to 2 on the null device if the parent process closed them.

    Raises:
        ConfigError: stdout is closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            if number == 1:
                raise ConfigError("stdout is closed") from None
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - stays open until exit


def _guard_terminal() -> None:
    """Filter escape sequences out of stdout and stderr if they are terminals."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty():
            from ludolf.cli.terminal import guarded

            setattr(sys, name, guarded(stream))


def _leave(code: int) -> None:
    """Flush the streams and exit at once; threads may still be waiting for input."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ludolf.rpc.signals import die_by

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except BrokenPipeError:
                code = code or CLOSED_PIPE
    die_by(code)
    os._exit(code)
