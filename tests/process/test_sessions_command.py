"""`ludolf sessions` and `ludolf export`, typed as a person would."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ludolf.base import dumps, loads
from tests.process.harness import Lab
from tests.process.script import answer

_ANSWER = {
    "role": "assistant",
    "api": "x",
    "provider": "x",
    "model": "m",
    "usage": {},
    "stopReason": "stop",
    "timestamp": 1,
}


def _write(lab: Lab, folder: str, session_id: str, *texts: str) -> Path:
    """A session file, as any program of the family leaves it."""
    path = lab.agent / "sessions" / folder / f"2026-01-01T00-00-00-000Z_{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    cwd = str(lab.work) if folder == "" else f"/srv/{folder}"
    stamp = "2026-01-01T00:00:00.000Z"
    lines = [{"type": "session", "version": 3, "id": session_id, "timestamp": stamp, "cwd": cwd}]
    parent = None
    for place, text in enumerate(texts):
        content = [{"type": "text", "text": text}]
        message = {"role": "user", "content": content, "timestamp": 1767225600000 + place}
        body = {"type": "message", "id": f"e{place}", "parentId": parent, "timestamp": stamp}
        lines.append({**body, "message": message})
        parent = f"e{place}"
    path.write_bytes(b"".join(dumps(line) + b"\n" for line in lines))
    return path


@pytest.fixture
def told(lab: Lab) -> Lab:
    """A lab whose folder has one real session, made by a prompt."""
    lab.server.add(answer("The harbour is closed."))
    assert lab.run("-p", "is the harbour open?").code == 0
    return lab


def test_sessions_of_this_folder_are_listed_as_a_table(told: Lab) -> None:
    _write(told, "--elsewhere--", "aaaa-1", "a stranger's talk")
    done = told.run("sessions")
    lines = done.stdout.decode().splitlines()
    assert done.code == 0
    assert lines[0].split() == ["id", "last", "used", "messages", "name"]
    assert len(lines) == 2
    assert lines[1].endswith("is the harbour open?")


def test_those_of_all_folders_are_listed_when_asked(told: Lab) -> None:
    _write(told, "--elsewhere--", "aaaa-1", "a stranger's talk")
    text = told.run("sessions", "list", "--all").stdout.decode()
    assert "a stranger's talk" in text
    assert "/srv/--elsewhere--" in text


def test_scripts_get_json_lines(told: Lab) -> None:
    records = told.run("sessions", "list", "--json").records
    assert [record["firstMessage"] for record in records] == ["is the harbour open?"]
    assert records[0]["messageCount"] == 2


def test_nothing_to_list_says_so(lab: Lab) -> None:
    done = lab.run("sessions")
    assert (done.code, done.stdout) == (0, b"")
    assert "--all" in done.stderr


def test_text_is_found_in_answers_too_and_in_any_case(told: Lab) -> None:
    done = told.run("sessions", "find", "HARBOUR IS closed")
    assert done.code == 0
    assert "assistant: The harbour is closed." in done.stdout.decode()
    assert told.run("sessions", "find", "submarine").code == 1
    found = told.run("sessions", "find", "harbour", "--json").records
    assert [hit["role"] for hit in found[0]["hits"]] == ["user", "assistant"]


def test_a_conversation_is_shown(told: Lab) -> None:
    text = told.run("sessions", "show", "last").stdout.decode()
    assert "## user\nis the harbour open?\n" in text
    assert "## assistant\nThe harbour is closed.\n" in text
    roles = [message["role"] for message in told.run("sessions", "show", "last", "--json").records]
    assert roles == ["user", "assistant"]


def test_nothing_in_a_session_can_act_on_the_terminal(lab: Lab) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jred \x1b[31malert\x9b5m\u202etxt"
    path = _write(lab, "--x--", "bbbb-1", evil)
    for words in (("list", "--all"), ("show", str(path)), ("find", "alert", "--all")):
        output = lab.run("sessions", *words).stdout.decode()
        assert "red alert" in output
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(output)


def test_a_session_is_renamed_by_the_beginning_of_its_id(lab: Lab) -> None:
    path = _write(lab, "--x--", "cccc-2222", "hello")
    assert lab.run("sessions", "rename", "cccc", "Harbour talk").code == 0
    assert loads(path.read_bytes().splitlines()[-1])["name"] == "Harbour talk"
    assert "Harbour talk" in lab.run("sessions", "list", "--all").stdout.decode()


def test_deleted_sessions_are_kept_in_the_trash(lab: Lab) -> None:
    path = _write(lab, "--x--", "dddd-1", "bye")
    done = lab.run("sessions", "delete", str(path))
    assert done.code == 0
    assert not path.exists()
    kept = lab.agent / "trash" / path.name
    assert kept.is_file()
    assert str(kept) in done.stdout.decode()


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "show", "01a1"),
        ("sessions", "rename", "01a1", "name"),
        ("sessions", "delete", "01a1"),
        ("sessions", "export", "01a1"),
        ("export", "01a1"),
        ("--export", "01a1"),
        ("view", "01a1"),
        ("-p", "--session", "01a1", "hello"),
        ("-p", "--fork", "01a1", "hello"),
        ("--mode", "rpc", "--session", "01a1"),
    ],
)
def test_the_beginning_of_several_ids_is_refused_with_a_list(
    lab: Lab, words: tuple[str, ...]
) -> None:
    files = [_write(lab, "--x--", f"01a1e052-{n}", f"talk {n}") for n in "34"]
    before = [path.read_bytes() for path in files]
    done = lab.run(*words)
    assert done.code == 1
    assert done.stderr.startswith("Error: 2 sessions have an id that begins with '01a1'.")
    assert "  01a1e052-3  2026-01-01 " in done.stderr
    assert "talk 4\n" in done.stderr
    assert [path.read_bytes() for path in files] == before
    assert lab.server.requests == []


def test_the_list_reports_files_that_other_users_can_read(lab: Lab) -> None:
    with TemporaryDirectory() as folder:  # the folders of tests are private as a whole
        place = Path(folder).resolve()
        place.chmod(0o755)
        lab_file = place / "s.jsonl"
        head = {"type": "session", "version": 3, "id": "aaaa-1", "timestamp": "", "cwd": "/srv"}
        lab_file.write_bytes(dumps(head) + b"\n")
        lab_file.chmod(0o644)
        words = ("sessions", "--session-dir", folder, "list", "--all")
        done = lab.run(*words)
        advice = f"To keep all sessions private: chmod 700 {folder}"
        assert done.stderr == f"Other users can read 1 session file. {advice}\n"
        assert lab.run(*words, "--json").stderr == ""
        place.chmod(0o700)
        assert lab.run(*words).stderr == ""


def test_last_is_understood_wherever_a_session_is_named(told: Lab) -> None:
    (path,) = told.sessions
    assert told.run("--export", "last", "a.html").code == 0
    assert told.run("--export", path.stem.rpartition("_")[2][:8], "b.html").code == 0
    assert told.run("--export", str(path), "c.html").code == 0
    assert told.run("export").stdout.startswith(b"Exported to: ")
    assert len(list(told.work.glob("*.html"))) == 4
    told.server.add(answer("Still closed."), answer("Closed."))
    assert told.run("-p", "--session", "last", "and now?").stdout == b"Still closed.\n"
    assert told.sessions == [path]
    assert told.run("-p", "--fork", "last", "and now?").stdout == b"Closed.\n"
    assert len(told.sessions) == 2


@pytest.mark.parametrize("words", [("--session",), ("--fork",), ("--export",)])
def test_last_without_a_session_is_an_error(lab: Lab, words: tuple[str, ...]) -> None:
    done = lab.run(*words, "last", "hello")
    assert (done.code, done.stderr) == (1, "Error: This folder has no sessions yet.\n")


def test_a_new_session_file_is_reported_to_a_person_and_not_to_a_host(lab: Lab) -> None:
    lab.server.add(answer("fine"), answer("fine"))
    done = lab.run("-p", "--session", "tlak.jsonl", "hello")
    path = lab.work / "tlak.jsonl"
    assert done.stderr == f"Warning: no session file {path}; a new session is created there.\n"
    assert lab.run("-p", "--session", "tlak.jsonl", "again").stderr == ""
    assert lab.run("--mode", "rpc", "--session", "other.jsonl").stderr == ""


def test_a_session_that_a_skill_began_is_listed_by_its_name_and_arguments(lab: Lab) -> None:
    skill = '<skill name="greet" location="/srv/greet/SKILL.md">\nBe kind.\n</skill>\n\nBob'
    _write(lab, "--x--", "aaaa-1", skill)
    (line,) = lab.run("sessions", "list", "--all").stdout.decode().splitlines()[1:]
    assert line.endswith("  greet: Bob")
    (record,) = lab.run("sessions", "list", "--all", "--json").records
    assert record["firstMessage"] == skill
    assert "greet: Bob" in lab.run("sessions", "find", "kind", "--all").stdout.decode()


def test_thinking_is_marked(lab: Lab) -> None:
    path = _write(lab, "--x--", "aaaa-1", "sum?")
    content = [
        {"type": "thinking", "thinking": "Two\nnumbers."},
        {"type": "text", "text": "Four."},
    ]
    message = {**_ANSWER, "content": content}
    body = {"type": "message", "id": "a1", "parentId": "e0", "timestamp": "t", "message": message}
    with path.open("ab") as file:
        file.write(dumps(body) + b"\n")
    text = lab.run("sessions", "show", str(path)).stdout.decode()
    assert text.endswith("## assistant\n> thinking: Two\n> numbers.\n\nFour.\n")


@pytest.mark.parametrize("word", ["show", "delete", "export"])
def test_an_unknown_session_is_an_error_that_names_it(lab: Lab, word: str) -> None:
    done = lab.run("sessions", word, "zzzz")
    assert done.code == 1
    assert "zzzz" in done.stderr


def test_export_writes_a_page_and_never_over_another_file(told: Lab) -> None:
    assert told.run("export", "last", "page.html").code == 0
    page = told.work / "page.html"
    assert "The harbour is closed." in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600
    page.write_text("mine")
    refused = told.run("export", "last", "page.html")
    assert refused.code == 1
    assert "File exists" in refused.stderr
    assert "--force" in refused.stderr
    assert page.read_text() == "mine"
    assert told.run("sessions", "export", "last", "page.html", "--force").code == 0
    assert "harbour" in page.read_text()


def test_a_page_with_another_suffix_is_written_with_a_note(told: Lab) -> None:
    done = told.run("export", "last", "page.txt")
    assert done.code == 0
    assert "page.txt is an HTML page" in done.stderr
    assert told.run("export", "last", "page.html").stderr == ""
    assert told.run("export", "last", "page.jsonl").stderr == ""


def test_export_finds_sessions_that_are_kept_elsewhere(lab: Lab) -> None:
    lab.server.add(answer("The harbour is closed."))
    assert lab.run("-p", "--session-dir", "talks", "is the harbour open?").code == 0
    done = lab.run("export", "last", "page.html", "--session-dir", "talks")
    assert done.code == 0
    assert "harbour" in (lab.work / "page.html").read_text()
    assert lab.run("export", "-h").stdout.startswith(b"usage: ludolf export ")


def test_a_word_that_resembles_no_subcommand_is_a_message(lab: Lab) -> None:
    lab.server.add(answer("fine"))
    done = lab.run("review")
    assert (done.stdout, done.stderr) == (b"fine\n", "")


def test_a_message_that_begins_like_a_subcommand_is_still_a_message(lab: Lab) -> None:
    lab.server.add(answer("fine"))
    assert lab.run("-p", "sessions").stdout == b"fine\n"


@pytest.mark.parametrize("word", ["install", "remove", "uninstall"])
def test_words_of_a_package_manager_never_reach_the_model(lab: Lab, word: str) -> None:
    done = lab.run(word, "npm:..", "-l")
    assert done.code == 1
    assert "is not a package of npm" in done.stderr
    assert lab.server.requests == []


def test_a_session_is_carried_to_another_folder_as_a_file(told: Lab) -> None:
    assert told.run("export", "last", "talk.jsonl").code == 0
    lines = [loads(line) for line in (told.work / "talk.jsonl").read_bytes().splitlines()]
    assert [line["message"]["role"] for line in lines if line["type"] == "message"] == [
        "user",
        "assistant",
    ]
    named = told.run("sessions", "export", "last", "--jsonl")
    (default,) = told.work.glob("session-*.jsonl")
    assert named.stdout.decode() == f"Exported to: {default.name}\n"
    done = told.run("sessions", "--session-dir", "talks", "import", "talk.jsonl")
    assert done.code == 0
    assert [path.name for path in (told.work / "talks").iterdir()] == ["talk.jsonl"]
    shown = told.run("sessions", "--session-dir", "talks", "show", "last").stdout.decode()
    assert "The harbour is closed." in shown


def test_a_session_is_imported_once(told: Lab) -> None:
    assert told.run("export", "last", "talk.jsonl").code == 0
    talks = ("sessions", "--session-dir", "talks")
    kept = told.work / "talks" / "talk.jsonl"
    assert told.run(*talks, "import", "talk.jsonl").stdout.decode() == f"Imported as {kept}\n"
    again = told.run(*talks, "import", "talk.jsonl")
    assert (again.code, again.stdout.decode()) == (0, f"Already imported: {kept}\n")
    before = kept.read_bytes()
    with (told.work / "talk.jsonl").open("ab") as file:
        file.write(b'{"type":"custom","id":"c1","parentId":null,"timestamp":"t"}\n')
    other = told.run(*talks, "import", "talk.jsonl")
    assert other.code == 1
    assert f"already there, with other content: {kept}" in other.stderr
    assert "--fork talk.jsonl" in other.stderr
    assert [path.read_bytes() for path in kept.parent.iterdir()] == [before]


def test_an_import_of_what_is_no_session_is_refused(lab: Lab) -> None:
    (lab.work / "notes.jsonl").write_text("notes")
    refused = lab.run("sessions", "import", "notes.jsonl")
    assert refused.code == 1
    assert "notes.jsonl" in refused.stderr
    assert not list((lab.agent / "sessions").rglob("*.jsonl"))


def test_sessions_in_the_old_place_are_moved_by_the_next_start(lab: Lab) -> None:
    path = _write(lab, "..", "eeee-1", "from long ago")
    other = lab.agent / "notes.jsonl"
    other.write_text("notes")
    lab.server.add(answer("fine"))
    done = lab.run("-p", "hello")
    assert done.code == 0
    assert not path.exists()
    assert other.exists()
    assert "from long ago" in lab.run("sessions", "list", "--all").stdout.decode()
    assert f"Moved {lab.agent}" in done.stderr
