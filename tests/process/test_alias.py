"""`ludolf install-alias`: started under another program's name, and nothing of anyone's lost."""

import os
import subprocess
from pathlib import Path

import pytest

from ludolf import __version__
from ludolf.base import dumps
from tests.process.harness import WAIT_SECONDS, Finished, Lab, only, text_of
from tests.process.script import answer

FIRST_RECORDS = {"pi": "response", "omp": "ready", "xcsh": "ready", "pi-early": "agent_start"}


@pytest.fixture
def folder(lab: Lab) -> Path:
    made = lab.root / "a folder"
    made.mkdir()
    return made


def _alias(lab: Lab, *words: str, path: str | None = None) -> Finished:
    return lab.run("install-alias", *words, PATH=path or lab.env["PATH"])


def _program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", FIRST_RECORDS)
def test_a_program_of_that_name_speaks_its_dialect(lab: Lab, folder: Path, name: str) -> None:
    assert _alias(lab, name, "--dir", str(folder)).code == 0
    stdin = dumps({"type": "prompt", "message": "hello", "id": "1"}) + b"\n"
    words = ("--mode", "rpc", "--model", "ludolf/offline", "--no-session")
    done = lab.run(*words, stdin=stdin, program=(str(folder / name),))
    assert (done.code, done.stderr) == (0, "")
    assert done.records[0]["type"] == FIRST_RECORDS[name]


def test_it_takes_words_with_spaces_and_tells_the_version(lab: Lab, folder: Path) -> None:
    _alias(lab, "pi", "--dir", str(folder))
    program = (str(folder / "pi"),)
    assert lab.run("--version", program=program).stdout.decode() == f"{__version__}\n"
    words = ("--mode", "json", "--model", "ludolf/offline", "--no-session", 'two  "words')
    said = only(lab.run(*words, program=program).records, "message_end")
    assert text_of(said[0]["message"]) == 'two  "words'


def test_the_alias_of_pi_079_is_named_pi(lab: Lab, folder: Path) -> None:
    done = _alias(lab, "pi-0.79", "--dir", str(folder))
    assert f"Made {folder}/pi: it starts Ludolf with the dialect pi-0.79" in done.stdout.decode()
    assert [path.name for path in folder.iterdir()] == ["pi"]
    words = ("--mode", "json", "--model", "ludolf/offline", "--no-session", "hello")
    records = lab.run(*words, program=(str(folder / "pi"),)).records
    assert records[-1]["type"] == "agent_end"
    other = lab.run("install-alias", "omp", program=(str(folder / "pi"),))
    assert (other.code, (folder / "omp").exists()) == (0, True)
    assert _alias(lab, "--remove", "pi-0.79", "--dir", str(folder)).code == 0
    assert not (folder / "pi").exists()


def test_it_stands_beside_the_command_that_makes_it(lab: Lab, folder: Path) -> None:
    """The first alias is started as a program of its own, so the second one joins it."""
    _alias(lab, "pi", "--dir", str(folder))
    done = lab.run("install-alias", "omp", program=(str(folder / "pi"),))
    assert done.code == 0
    assert (folder / "omp").exists()


def test_without_a_command_of_ours_it_goes_to_the_usual_place(lab: Lab) -> None:
    assert _alias(lab, "xcsh").code == 0
    assert os.access(lab.root / "home" / ".local" / "bin" / "xcsh", os.X_OK)


def test_a_file_that_exists_is_left_as_it_is(lab: Lab, folder: Path) -> None:
    (folder / "pi").write_text("theirs")
    done = _alias(lab, "pi", "--dir", str(folder))
    assert done.code == 1
    assert "already exists" in done.stderr
    assert (folder / "pi").read_text() == "theirs"


def test_a_link_that_leads_nowhere_is_left_as_it_is(lab: Lab, folder: Path) -> None:
    (folder / "pi").symlink_to(folder / "gone")
    assert _alias(lab, "pi", "--dir", str(folder)).code == 1
    assert (folder / "pi").readlink() == folder / "gone"
    assert not (folder / "gone").exists()


def test_a_second_one_leaves_the_first_as_it_is(lab: Lab, folder: Path) -> None:
    _alias(lab, "pi", "--dir", str(folder))
    before = (folder / "pi").read_text()
    done = _alias(lab, "pi", "--dir", str(folder))
    assert done.code == 0
    assert done.stdout.startswith(b"Already there: ")
    assert (folder / "pi").read_text() == before


def test_an_alias_of_another_installation_is_updated(lab: Lab, folder: Path) -> None:
    _alias(lab, "pi", "--dir", str(folder))
    before = (folder / "pi").read_text()
    (folder / "pi").write_text(before.replace("exec ", "exec /gone"))
    done = _alias(lab, "pi", "--dir", str(folder))
    assert done.code == 0
    assert done.stdout.startswith(b"Updated ")
    assert (folder / "pi").read_text() == before


def test_other_names_are_refused(lab: Lab, folder: Path) -> None:
    done = _alias(lab, "claude", "--dir", str(folder))
    assert done.code == 2
    assert "invalid choice" in done.stderr
    assert list(folder.iterdir()) == []


# ---------------------------------------------------------------- what the name finds


def _with_path(lab: Lab, *folders: Path) -> str:
    return os.pathsep.join([*map(str, folders), lab.env["PATH"]])


def test_it_says_that_its_folder_is_not_on_the_path(lab: Lab, folder: Path) -> None:
    done = _alias(lab, "pi-early", "--dir", str(folder))
    assert f"{folder} is not on PATH" in done.stdout.decode()


def test_on_the_path_it_has_nothing_to_say(lab: Lab, folder: Path) -> None:
    done = _alias(lab, "pi-early", "--dir", str(folder), path=_with_path(lab, folder))
    assert done.stdout.decode().splitlines() == [
        f"Made {folder}/pi-early: it starts Ludolf with the dialect pi-early"
    ]


def test_it_names_programs_before_and_behind_it(lab: Lab, folder: Path) -> None:
    first = _program(lab.root / "first" / "pi-early")
    last = _program(lab.root / "last" / "pi-early")
    path = _with_path(lab, first.parent, folder, last.parent)
    told = _alias(lab, "pi-early", "--dir", str(folder), path=path).stdout.decode()
    assert f"{first} comes first on PATH" in told
    assert f"{last} comes later on PATH" in told


# ---------------------------------------------------------------- removing


def test_what_it_made_it_removes(lab: Lab, folder: Path) -> None:
    _alias(lab, "pi", "--dir", str(folder))
    assert _alias(lab, "--remove", "pi", "--dir", str(folder)).code == 0
    assert list(folder.iterdir()) == []


def test_what_it_did_not_make_it_does_not_remove(lab: Lab, folder: Path) -> None:
    _alias(lab, "omp", "--dir", str(folder))
    _program(folder / "pi")
    (folder / "xcsh").symlink_to("omp")
    for name in ("pi", "xcsh"):
        done = _alias(lab, "--remove", name, "--dir", str(folder))
        assert done.code == 1
        assert "was not removed" in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["omp", "pi", "xcsh"]


def test_what_is_not_there_cannot_be_removed(lab: Lab, folder: Path) -> None:
    done = _alias(lab, "--remove", "pi", "--dir", str(folder))
    assert (done.code, done.stderr) == (1, f"Error: {folder}/pi does not exist\n")


def test_a_folder_that_cannot_be_written_is_named(lab: Lab) -> None:
    blocked = lab.root / "blocked"
    blocked.write_text("")
    done = _alias(lab, "pi", "--dir", str(blocked / "bin"))
    assert done.code == 1
    assert f"{blocked}/bin/pi cannot be written" in done.stderr


def test_signals_reach_the_program_behind_the_name(lab: Lab, folder: Path) -> None:
    _alias(lab, "pi", "--dir", str(folder))
    process = subprocess.Popen(
        [folder / "pi", "--mode", "rpc"],
        cwd=lab.work,
        env=lab.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"type":"get_state"}\n')
        process.stdin.flush()
        process.stdout.readline()
        process.terminate()
        assert process.wait(WAIT_SECONDS) in (-15, 143)


# ---------------------------------------------------------------- flags of the name


def test_under_the_name_of_omp_its_flags_are_understood(lab: Lab, folder: Path) -> None:
    lab.server.add(answer("Here."), answer("Again."))
    _alias(lab, "omp", "--dir", str(folder))
    program = (str(folder / "omp"),)
    elsewhere = lab.root / "elsewhere"
    elsewhere.mkdir()
    flags = ("--no-lsp", "--no-title", "--auto-approve", "--cwd", str(elsewhere), "--smol", "x")
    done = lab.run(*flags, "-p", "Go", program=program)
    assert (done.code, done.stdout) == (0, b"Here.\n")
    assert done.stderr == "Warning: --smol has no effect here\n"
    (session,) = lab.sessions
    assert session.parent.name.endswith("-elsewhere--")
    again = lab.run("--resume", str(session), "-p", "Go on", program=program)
    assert (again.code, again.stdout) == (0, b"Again.\n")
    assert lab.sessions == [session]


def test_under_other_names_they_are_unknown(lab: Lab) -> None:
    done = lab.run("--no-lsp", "-p", "Go")
    assert (done.code, done.stderr) == (1, "Error: Unknown option: --no-lsp\n")


def test_a_folder_that_is_not_there_is_named(lab: Lab) -> None:
    done = lab.run("--rpc-dialect", "omp", "--cwd", "nowhere", "-p", "Go")
    assert done.code == 1
    assert "--cwd nowhere: No such file or directory" in done.stderr
