"""`ludolf trust`: shows what a project would run, asks, and stores the decision."""

import os
import pty
import subprocess
import sys

import pytest

from ludolf.base import loads
from tests.process.extending import lay_in_project
from tests.process.harness import Finished, Lab
from tests.process.script import answer

LOADS = """
from pathlib import Path
Path("loaded").touch()

def extension(api): ...
"""


def _used(lab: Lab) -> bool:
    """Whether a prompt runs the extension of the project."""
    lab.server.add(answer("Hello."))
    assert lab.run("-p", "Hi").code == 0
    return (lab.work / "loaded").exists()


def _at_a_terminal(lab: Lab, reply: bytes) -> Finished:
    master, slave = pty.openpty()
    with subprocess.Popen(
        (sys.executable, "-m", "ludolf", "trust"),
        cwd=lab.work,
        env=lab.env,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(slave)
        os.write(master, reply)
        stdout, stderr = process.communicate(timeout=30)
    os.close(master)
    return Finished(process.returncode, stdout, stderr.decode())


def test_the_warning_names_the_command_that_trusts_the_folder(lab: Lab) -> None:
    lay_in_project(lab, LOADS)
    lab.server.add(answer("Hello."))
    assert "Trust it with `ludolf trust`" in lab.run("-p", "Hi").stderr


def test_a_trusted_folder_runs_its_extensions_until_they_change(lab: Lab) -> None:
    path = lay_in_project(lab, LOADS)
    done = lab.run("trust", "--yes")
    assert (done.code, done.stderr) == (0, "")
    assert b"  .pi/extensions/ours.py\n" in done.stdout
    assert _used(lab)
    path.write_text(LOADS + "# changed\n")
    (lab.work / "loaded").unlink()
    assert not _used(lab)
    assert b"has changed since it was trusted" in lab.run("trust", "--json", "--list").stdout


def test_without_a_terminal_nothing_is_stored_and_the_way_out_is_named(lab: Lab) -> None:
    lay_in_project(lab, LOADS)
    done = lab.run("trust")
    assert done.code == 1
    assert f"`ludolf trust --yes {lab.work}`" in done.stderr
    assert not (lab.agent / "trust.json").exists()


def test_a_folder_with_nothing_to_trust_is_no_question(lab: Lab) -> None:
    done = lab.run("trust", str(lab.work))
    assert (done.code, done.stderr) == (0, "")
    assert b"has no settings, extensions, skills or other resources that need trust" in done.stdout
    assert not (lab.agent / "trust.json").exists()


@pytest.mark.parametrize(("reply", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
def test_a_person_is_asked(lab: Lab, reply: bytes, code: int) -> None:
    lay_in_project(lab, LOADS)
    done = _at_a_terminal(lab, reply)
    assert done.code == code
    assert "[y/N]" in done.stderr
    assert _used(lab) == (code == 0)


def test_trust_can_be_revoked_and_listed(lab: Lab) -> None:
    lay_in_project(lab, LOADS)
    other = lab.root / "other"
    other.mkdir()
    assert lab.run("trust", "--yes").code == 0
    assert lab.run("trust", str(other), "--yes").code == 0
    assert lab.run("trust", "--revoke").code == 0
    assert not _used(lab)
    rows = lab.run("trust", "--list", "--json").records
    assert [(row["folder"], row["trusted"]) for row in rows] == [
        (str(other), True),
        (str(lab.work), False),
    ]


def test_json_describes_the_folder_and_changes_nothing(lab: Lab) -> None:
    lay_in_project(lab, LOADS)
    report = loads(lab.run("trust", "--json").stdout)
    assert report["state"] == "undecided"
    assert report["code"] == [".pi/extensions/ours.py"]
    assert report["resources"] == [".pi/extensions"]
    assert not (lab.agent / "trust.json").exists()


def test_a_missing_folder_is_an_error(lab: Lab) -> None:
    done = lab.run("trust", "no-such")
    assert (done.code, done.stderr) == (1, f"Error: {lab.work / 'no-such'} is not a folder\n")


def test_a_file_name_cannot_pass_for_other_lines(lab: Lab) -> None:
    lay_in_project(lab, LOADS, "a\n  harmless.py")
    for at in range(120):
        lay_in_project(lab, LOADS, f"b{at}.py")
    shown = lab.run("trust", "--yes").stdout.decode().splitlines()
    assert "  .pi/extensions/a harmless.py" in shown
    assert "  and 21 more; --json lists all" in shown
