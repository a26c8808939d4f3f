"""The minimal clients do the same in every language: stream, abort, refuse, tell failures."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.examples.ground import EXAMPLES, Ground, interrupt, read_until
from tests.process.harness import survivors, text_of

Command = tuple[str, ...]
MOST_LINES = 320
# What a careless reader breaks: other line ends, escapes, characters of several bytes, blanks.
TRICKY = "a\u2028b\u2029c \\n \\\\ 100% %s 'q' \"d\" `x` $HOME 👀\ttab\r\n  indented  \n-n last"
DEPLOY = """
def extension(api):
    @api.command("deploy")
    async def deploy(args, ctx):
        sure = await ctx.ui.confirm("Deploy?", "This goes online.")
        open("answer", "w").write(str(sure))
"""


def _python(_: Path) -> Command:
    return sys.executable, str(EXAMPLES / "python" / "minimal.py")


def _node(_: Path) -> Command:
    return _found("node"), str(EXAMPLES / "node" / "minimal.mjs")


def _shell(_: Path) -> Command:
    _found("jq")
    return "sh", str(EXAMPLES / "shell" / "ask.sh")


def _go(folder: Path) -> Command:
    program = folder / "minimal"
    if not program.exists():
        # The compiler's cache is the real user's, where there is one.
        command = [_found("go"), "build", "-o", str(program), "."]
        subprocess.run(command, cwd=EXAMPLES / "go", check=True, timeout=120)
    return (str(program),)


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"this example needs {program}")
    return path


CLIENTS: dict[str, Callable[[Path], Command]] = {
    "python": _python,
    "node": _node,
    "go": _go,
    "shell": _shell,
}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("built")


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, built: Path) -> Command:
    return CLIENTS[request.param](built)


pytestmark = pytest.mark.timeout(120)  # a compiler may have to begin at the beginning


def test_the_answer_is_on_stdout_and_tool_calls_are_on_stderr(
    ground: Ground, client: Command
) -> None:
    (ground.work / "a.txt").write_text("hi\n")
    done = ground.run(*client, "read a.txt")
    assert done.code == 0
    assert done.stdout.decode() == "I will read a.txt.\nHere is a.txt:\n```\nhi\n```\n"
    assert done.stderr.replace(" ", "") == '[read{"path":"a.txt"}]\n'
    assert survivors(ground.pids) == []


def test_every_character_arrives_both_ways(ground: Ground, client: Command) -> None:
    ground.script({"text": TRICKY, "chunk": 3})
    assert ground.run(*client, TRICKY).stdout.decode() == TRICKY + "\n"
    assert text_of(ground.said[0]) == TRICKY


def test_a_line_may_be_long(ground: Ground, client: Command) -> None:
    ground.script({"text": "x" * 300_000, "chunk": 200_000})
    assert len(ground.run(*client, "Go").stdout) == 300_001


def test_an_interrupt_aborts_and_keeps_what_was_said(ground: Ground, client: Command) -> None:
    ground.script({"text": "Let me think", "hang": True})
    with ground.started(*client, "Go") as process:
        assert read_until(process.stdout, b"think") == b"Let me think"
        code, _ = interrupt(process)
    assert code == 130
    assert survivors(ground.pids) == []
    assert ground.said[-1]["stopReason"] == "aborted"
    assert text_of(ground.said[-1]) == "Let me think"


def test_a_model_that_fails_is_told_with_an_exit_code(ground: Ground, client: Command) -> None:
    ground.script({"error": {"text": "No such key", "status": 401}})
    done = ground.run(*client, "Go")
    assert (done.code, done.stdout) == (1, b"")
    assert "No such key" in done.stderr


def test_a_second_attempt_that_succeeds_is_a_success(ground: Ground, client: Command) -> None:
    ground.script({"error": {"text": "Overloaded", "status": 529}}, {"text": "Here."})
    done = ground.run(*client, "Go")
    assert (done.code, done.stdout) == (0, b"Here.\n")


def test_a_program_that_cannot_start_is_told(ground: Ground, client: Command) -> None:
    done = ground.run(*client, "Go", "--model", "nobody/nothing")
    assert (done.code, done.stdout) == (1, b"")
    assert 'Model "nobody/nothing" not found' in done.stderr


def test_a_refused_prompt_is_told(ground: Ground, client: Command) -> None:
    ground.settings()
    ground.env["LUDOLF_OFFLINE_MODEL"] = "0"
    done = ground.run(*client, "Go")
    assert (done.code, done.stdout) == (1, b"")
    assert "model" in done.stderr.lower()


def test_a_dialog_is_refused_and_holds_nobody_up(ground: Ground, client: Command) -> None:
    (ground.work / "deploy.py").write_text(DEPLOY)
    done = ground.run(*client, "/deploy", "-e", "deploy.py")
    assert (done.code, done.stdout, done.stderr) == (0, b"", "")
    assert (ground.work / "answer").read_text() == "False"


@pytest.mark.parametrize("shell", ["bash", "dash", "busybox sh"])
def test_the_shell_client_runs_in_every_shell(ground: Ground, shell: str) -> None:
    program, *rest = shell.split()
    _found("jq")
    ground.script({"text": TRICKY})
    command: Sequence[str] = [_found(program), *rest, str(EXAMPLES / "shell" / "ask.sh"), "Go"]
    done = ground.run(*command)
    assert (done.code, done.stdout.decode(), done.stderr) == (0, TRICKY + "\n", "")


def test_examples_are_short_enough_to_be_read() -> None:
    files = [path for path in EXAMPLES.rglob("*.*") if path.is_file() and path.suffix != ".pyc"]
    assert [path for path in files if len(path.read_bytes().splitlines()) > MOST_LINES] == []
