"""Words and options of the command line: which command they run, and how it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ludolf.base import loads
from tests.process.fork_server import fork, read_status
from tests.process.harness import SOURCE, WAIT_SECONDS, Lab
from tests.process.script import answer

# Interrupts the program when it imports the module that INTERRUPT_AT names.
INTERRUPTER = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ.get("INTERRUPT_AT"):
            os.kill(os.getpid(), signal.SIGINT)
        return None
sys.meta_path.insert(0, Finder())
"""


@pytest.fixture
def asked(lab: Lab) -> Lab:
    """A lab with one session of this folder."""
    lab.server.add(answer("The harbour is closed. " * 20))
    assert lab.run("-p", "is the harbour open?").code == 0
    lab.server.requests.clear()
    return lab


# ---------------------------------------------------------------- options before a command


@pytest.mark.parametrize(
    "options", [("--no-session",), ("--offline",), ("--model", "claude/large"), ("-c",)]
)
def test_a_command_after_options_runs(asked: Lab, options: tuple[str, ...]) -> None:
    done = asked.run(*options, "sessions")
    assert (done.code, done.stderr) == (0, "")
    assert b"is the harbour open?" in done.stdout
    assert asked.server.requests == []


def test_the_folder_of_sessions_applies_to_the_command_after_it(asked: Lab) -> None:
    done = asked.run("--session-dir", "elsewhere", "sessions")
    assert done.code == 0
    assert b"harbour" not in done.stdout


@pytest.mark.parametrize("words", [("--no-session", "sesions"), ("Sessions",)])
def test_a_misspelt_command_alone_is_not_sent_to_the_model(
    lab: Lab, words: tuple[str, ...]
) -> None:
    done = lab.run(*words)
    assert (done.code, done.stdout) == (2, b"")
    assert "Did you mean `ludolf sessions`?" in done.stderr
    assert f"ludolf -p {words[-1]}" in done.stderr
    assert lab.server.requests == []


def test_a_misspelt_command_with_further_words_is_a_message_with_a_warning(lab: Lab) -> None:
    lab.server.add(answer("fine"), answer("fine"))
    done = lab.run("sesions", "list")
    assert done.stdout == b"fine\n"
    assert "Did you mean `ludolf sessions`?" in done.stderr
    assert lab.run("-p", "sesions").stdout == b"fine\n"


def test_help_is_a_word_too(lab: Lab) -> None:
    assert lab.run("help").stdout == lab.run("--help").stdout
    assert lab.run("help", "models").stdout == lab.run("models", "-h").stdout
    done = lab.run("help", "me", "please")
    assert done.code == 1
    assert 'ludolf -p "help me please"' in done.stderr


@pytest.mark.parametrize(
    ("command", "option"),
    [("/model sonnet", "--model"), ("/compact", "automatically"), ("/login", "ludolf auth login")],
)
def test_commands_of_pis_terminal_are_refused_with_what_replaces_them(
    lab: Lab, command: str, option: str
) -> None:
    done = lab.run("-p", command)
    assert done.code == 1
    assert option in done.stderr
    assert lab.server.requests == []


def test_a_limit_of_zero_names_its_flag(lab: Lab) -> None:
    done = lab.run("--max-turns", "0", "-p", "Hi")
    assert (done.code, done.stderr) == (1, 'Error: --max-turns must be greater than 0, not "0"\n')


@pytest.mark.parametrize("words", [("-p", "list"), ("--mode", "text", "list"), ("--", "list")])
def test_a_message_in_a_mode_is_not_a_command(lab: Lab, words: tuple[str, ...]) -> None:
    lab.server.add(answer("fine"))
    assert lab.run(*words).stdout == b"fine\n"


# ---------------------------------------------------------------- default commands


def test_options_of_the_default_command_need_not_name_it(asked: Lab) -> None:
    for options in (("--all", "--json"), ("--limit", "1", "--json")):
        done = asked.run("sessions", *options)
        assert (done.code, done.stderr) == (0, "")
        assert loads(done.stdout)["cwd"] == str(asked.work)
    found = asked.run("models", "claude")
    assert found.code == 0
    assert b"claude" in found.stdout
    assert b"gemini" not in found.stdout
    assert asked.run("models", "--all").code == 0
    assert "providers" in loads(asked.run("auth", "--json").stdout)
    assert asked.run("auth", "claude").stdout.startswith(b"claude ")


def test_an_unknown_command_of_a_command_lists_the_known_ones(lab: Lab) -> None:
    for words in (("sessions", "frobnicate"), ("models", "shw"), ("auth", "logn")):
        done = lab.run(*words)
        assert done.code == 2
        assert "invalid choice" in done.stderr


# ---------------------------------------------------------------- words of pi


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("list",), 0, "No packages installed."),
        (("list", "all", "files"), 1, 'ludolf -p "list all files"'),
        (("list", "--help"), 0, "usage: ludolf list"),
        (("config",), 0, "No packages installed."),
        (("config", "-l"), 0, "No packages installed."),
        (("update",), 1, "does not update itself"),
        (("update", "pi"), 1, "does not update itself"),
        (("update", "--self"), 1, "does not update itself"),
        (("update", "npm:x"), 1, "No matching package found for npm:x"),
        (("update", "--extensions"), 0, "No packages installed."),
        (("login",), 1, "The provider is missing"),
        (("logout", "claude"), 1, "No stored credentials"),
        (("--no-session", "list"), 0, "No packages installed."),
        (("install",), 1, "Which package?"),
        (("install", "--help"), 0, "usage: ludolf install"),
    ],
)
def test_words_of_pi_never_reach_the_model(
    lab: Lab, words: tuple[str, ...], code: int, text: str
) -> None:
    done = lab.run(*words)
    assert done.code == code
    assert text in done.stdout.decode() + done.stderr
    assert lab.server.requests == []


# ---------------------------------------------------------------- ends


@pytest.mark.exec
@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("list",),
        ("sessions", "show", "last"),
        ("sessions", "find", "harbour"),
        ("sessions", "list", "--json"),
        ("models", "list", "--json"),
        ("models", "schema"),
        ("auth", "status"),
        ("schema",),
        ("-p", "Go"),
        ("--mode", "json", "Go"),
    ],
)
def test_a_closed_pipe_ends_every_command_quietly(asked: Lab, words: tuple[str, ...]) -> None:
    asked.server.add(answer("Again."))
    reader, writer = os.pipe()
    os.close(reader)
    errors, stderr = os.pipe()
    stdin = os.open(os.devnull, os.O_RDONLY)
    _, status = fork(words, str(asked.work), asked.env, (stdin, writer, stderr))
    for descriptor in (stdin, writer, stderr):
        os.close(descriptor)
    with open(errors, "rb") as told:
        assert told.read() == b""
    assert read_status(status) in (1, 128 + signal.SIGPIPE)


@pytest.mark.exec
@pytest.mark.parametrize(
    "module",
    [
        *("ludolf.cli.main", "ludolf.base", "msgspec", "ludolf.config.settings.arguments"),
        *("ludolf.cli.one_shot", "ludolf.engine.build", "asyncio", "ludolf.cli.subcommands.models"),
    ],
)
def test_ctrl_c_ends_the_start_quietly(lab: Lab, tmp_path: Path, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTER)
    words = ("models",) if "models" in module else ("-p", "Go")
    done = subprocess.run(
        [sys.executable, "-m", "ludolf", *words],
        cwd=lab.work,
        env={**lab.env, "PYTHONPATH": f"{tmp_path}:{SOURCE}", "INTERRUPT_AT": module},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=2 * WAIT_SECONDS,
        check=False,
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    assert done.returncode == -signal.SIGINT  # which a shell reports as 130
    assert lab.server.requests == []
