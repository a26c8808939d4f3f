"""`ludolf schema`: the published files on stdout."""

from pathlib import Path

import pytest

from ludolf.base import loads
from ludolf.protocol.dialects import NAMES
from tests.process.harness import Lab

FOLDER = Path(__file__).parents[2] / "docs" / "schema"


def _published(name: str) -> str:
    return (FOLDER / name).read_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_of_a_dialect_is_printed(lab: Lab, name: str) -> None:
    done = lab.run("schema", "--dialect", name, "--direction", "out")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.decode() == _published(f"out-{name}.schema.json")


def test_the_schema_of_commands_is_printed(lab: Lab) -> None:
    done = lab.run("schema", "--direction", "in")
    assert done.stdout.decode() == _published("in.schema.json")


def test_without_a_choice_all_of_them_are_printed_in_one_object(lab: Lab) -> None:
    done = lab.run("schema")
    server = {"server-in", "server-out"}
    assert set(loads(done.stdout)) == {"in", *(f"out-{name}" for name in NAMES), *server}


@pytest.mark.parametrize("direction", ["in", "out"])
def test_the_schema_of_the_server_is_printed(lab: Lab, direction: str) -> None:
    done = lab.run("schema", "--server", "--direction", direction)
    assert done.stdout.decode() == _published(f"server-{direction}.schema.json")


def test_types_of_the_server_are_printed(lab: Lab) -> None:
    done = lab.run("schema", "--server", "--typescript")
    text = done.stdout.decode()
    assert "export type ServerCommand = SessionCommand | HelloCommand | " in text
    assert "export type NumberedFrame = Numbered & (" in text
    assert "export interface ServerAnswers {" in text


def test_types_are_printed(lab: Lab) -> None:
    done = lab.run("schema", "--typescript")
    assert done.stdout.decode() == _published("ludolf.d.ts")


def test_types_of_one_dialect_name_no_other(lab: Lab) -> None:
    done = lab.run("schema", "--typescript", "--dialect", "pi-delta")
    text = done.stdout.decode()
    assert "export type PiDeltaFrame = " in text
    assert "export type Command = " in text
    assert "Omp" not in text
    assert "ServerFrame =" not in text


def test_an_unknown_dialect_is_refused_with_the_list(lab: Lab) -> None:
    done = lab.run("schema", "--dialect", "klingon")
    assert (done.code, done.stdout) == (2, b"")
    assert "xcsh" in done.stderr
