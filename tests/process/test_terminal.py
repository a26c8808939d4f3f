"""The terminal program as a person uses it, in tmux."""

import os
import signal
from base64 import b64encode
from collections import Counter

from tests.process.harness import PROGRAM, Lab
from tests.process.script import Gate, answer, call, say
from tests.process.tmux_stage import TmuxTerminal, tmux_terminal

READY = "Type a task"
# The footer knows the size of the context when a turn has ended.
DONE = "% of 200k"


def _dividers(screen: str) -> int:
    return sum(line.startswith("─────") for line in screen.splitlines())


def test_every_line_of_a_long_answer_is_once_in_the_scrollback(lab: Lab) -> None:
    lines = [f"Line {number} of the answer." for number in range(120)]
    lab.server.add(answer("# Head\n\n" + "\n\n".join(lines), size=7))
    with tmux_terminal(lab) as terminal:
        terminal.start()
        terminal.type("keys before the engine answers")
        terminal.press("Enter")
        terminal.wait_for("Line 119 of the answer.")
        terminal.wait_for(DONE)
        history = terminal.history()
        count = Counter(row.strip() for row in history.splitlines())
        assert [count[line] for line in lines] == [1] * len(lines)
        assert history.count("❯ keys before the engine answers") == 1
        assert _dividers(history) == 1
        terminal.press("C-d")
        terminal.wait(lambda screen: screen.rstrip().endswith("$"))
        assert terminal.pids("--private") == []
    assert (lab.agent / "prompt-history").exists()


def test_after_six_resizes_there_is_one_prompt_and_one_footer(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("word " * 200, gate, "end of it")))
    with tmux_terminal(lab) as terminal:
        terminal.start("go")
        terminal.wait_for("word word")
        for columns, rows in ((60, 20), (120, 30), (40, 12), (100, 24), (70, 40), (80, 24)):
            terminal.resize(columns, rows)
            terminal.wait(lambda screen: "large" in screen)
        gate.open()
        terminal.wait_for("end of it")
        screen = terminal.wait_for(READY)
        assert screen.count(READY) == 1
        assert _dividers(screen) == 1


def test_steering_queueing_taking_back_and_stopping(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("Working on ", gate, "it.")))
    with tmux_terminal(lab) as terminal:
        terminal.start("first task")
        terminal.wait_for("Working on")
        terminal.type("turn left")
        terminal.press("Enter")
        terminal.wait_for("steer: turn left")
        terminal.type("write docs")
        terminal.press("M-Enter")
        terminal.wait_for("then: write docs")
        terminal.press("M-Up")
        screen = terminal.wait(lambda screen: "steer:" not in screen)
        assert "> turn left" in screen
        terminal.press("C-c")
        terminal.wait_for(READY)
        terminal.type("again")
        terminal.press("Enter")
        terminal.wait_for("steer: again")
        terminal.press("Escape")
        screen = terminal.wait_for("Stopped")
        screen = terminal.wait_for("> again")
        assert "steer:" not in screen
        gate.open()
        terminal.press("C-c")
        terminal.wait_for(READY)
        terminal.paste("a line of a paste of a megabyte\n" * 32_768)
        terminal.wait_for("[paste 1: 32768 lines]")
        terminal.press("C-c")
        terminal.wait_for(READY)


def test_esc_stops_a_tool_and_refuses_an_approval(lab: Lab) -> None:
    sleep = call("bash", {"command": "echo begun; sleep 60"})
    lab.server.add(answer(sleep), answer(sleep), answer("As you wish."))
    with tmux_terminal(lab) as terminal:
        terminal.start("--approval", "on-command", "go")
        terminal.wait_for("1. Approve")
        terminal.press("1")
        terminal.wait_for("  begun")
        terminal.press("Escape")
        terminal.wait(lambda screen: READY in screen and "Stopped" in screen)
        terminal.type("again")
        terminal.press("Enter")
        terminal.wait_for("1. Approve")
        terminal.press("Escape")
        terminal.wait_for("As you wish.")


def _order(terminal: TmuxTerminal, text: str, seen: str) -> str:
    terminal.type(text)
    terminal.press("Enter")
    return terminal.wait_for(seen)


def _close(terminal: TmuxTerminal) -> None:
    """Close a picker; a key right behind Esc would be one with Alt."""
    terminal.press("Escape")
    terminal.wait_for("───")


def _empty(terminal: TmuxTerminal) -> None:
    terminal.press("C-c")
    terminal.wait_for(READY)


def _label_in_the_tree(terminal: TmuxTerminal) -> None:
    assert "> two" in _order(terminal, "/tree", "Tree  5 of 5")
    terminal.press("Up", "Up", "Enter")
    terminal.wait_for("Label it")
    terminal.press("Down", "Down", "Enter")
    terminal.wait(lambda screen: "\nLabel\n>" in screen)
    _order(terminal, "good place", "Label: good place")
    screen = _order(terminal, "/tree", "Tree  5 of 5")
    (line,) = [line for line in screen.splitlines() if "good place" in line]
    assert line.startswith("> ! echo")
    _close(terminal)


def _rename_and_delete(terminal: TmuxTerminal) -> None:
    _order(terminal, "/resume", "Sessions of this folder  3 of 3")
    terminal.type("Tide")
    terminal.wait_for("1 of 3")
    terminal.press("C-r")
    terminal.wait_for("New name")
    terminal.press("C-u")
    _order(terminal, "Ebb chart", "Ebb chart  ")
    terminal.type("Ebb")
    terminal.wait_for("1 of 3")
    terminal.press("C-d")
    terminal.wait_for("Delete Ebb chart?")
    terminal.press("Down", "Enter")
    terminal.wait_for("Sessions of this folder  2 of 2")
    _close(terminal)


def _log_in_and_out(terminal: TmuxTerminal, lab: Lab) -> None:
    _order(terminal, "/login", "Log in to  ")
    terminal.type("mistral")
    terminal.wait_for("1 of ")
    terminal.press("Enter")
    terminal.wait_for("API key for mistral:")
    _order(terminal, "key-123", "Logged in to mistral.")
    assert "key-123" in (lab.agent / "auth.json").read_text()
    assert "mistral" in _order(terminal, "/logout", "Log out of")
    terminal.press("Enter")
    terminal.wait_for("The credentials of mistral are removed.")


def test_commands_and_pickers_act_on_the_session(lab: Lab) -> None:
    lab.server.add(answer("First."), answer("Second."))
    with tmux_terminal(lab, 100, 30) as terminal:
        terminal.start("one")
        terminal.wait_for("First.")
        terminal.wait_for("large • medium · 0 %")
        _order(terminal, "!!echo private$((1+1))", "private2")
        terminal.press("BTab")
        terminal.wait_for("large • high")
        _order(terminal, "/thinking low", "large • low")
        _order(terminal, "two", "Second.")
        assert "private2" not in str(lab.server.requests[-1].body)
        _order(terminal, "/name Tide chart", READY)
        _order(terminal, "/session", "Prompts: 2, answers: 2")
        _label_in_the_tree(terminal)
        _order(terminal, "/fork", "Fork before  2 of 2")
        terminal.press("Enter")
        terminal.wait(lambda screen: "Fork before" not in screen and "\n> two\n" in screen)
        _empty(terminal)
        _order(terminal, "/clone", "This is a copy of the session.")
        _rename_and_delete(terminal)
        _order(terminal, "/theme light", READY)
        _order(terminal, "/export page.html", "Written: ")
        assert "First." in (lab.work / "page.html").read_text()
        _order(terminal, "/copy", "sent to the clipboard")
        assert b"]52;c;" + b64encode(b"First.") in terminal.written()
        _order(terminal, "/reload", "were read again.")
        _log_in_and_out(terminal, lab)
        assert "next thinking level" in _order(terminal, "/hotkeys", "run a shell command")
        assert "Automatic compaction" in _order(terminal, "/settings", "Settings (Enter changes")
        _close(terminal)
        terminal.press("C-l")
        assert "claude/large" in terminal.wait_for("Model  ")
        _close(terminal)
        _order(terminal, "/nosuch", "Unknown command: /nosuch.")
        _empty(terminal)
        terminal.press("C-r")
        terminal.type("tw")
        terminal.wait_for("two")


def test_an_approval_shows_the_diff_and_the_draft_stays(lab: Lab) -> None:
    file = lab.work / "a.txt"
    file.write_text("old line\n")
    gate = Gate()
    edit = {"path": "a.txt", "edits": [{"oldText": "old line", "newText": "new line"}]}
    lab.server.add(answer(say("Let me ", gate, "edit."), call("edit", edit)), answer("Edited."))
    with tmux_terminal(lab) as terminal:
        terminal.start("--approval", "on-write", "change it")
        terminal.wait_for("Let me")
        terminal.type("a draft")
        terminal.wait_for("> a draft")
        gate.open()
        screen = terminal.wait_for("1. Approve")
        assert "new line" in screen
        assert "old line" in screen
        assert "Risk: write" in screen
        assert file.read_text() == "old line\n"
        terminal.press("y")
        terminal.wait_for("Edited.")
        assert "> a draft" in terminal.wait_for("> a draft")
    assert file.read_text() == "new line\n"


def test_the_pager_shows_all_output_and_leaves_the_screen_as_it_was(lab: Lab) -> None:
    lab.server.add(answer(call("bash", {"command": "seq 1 300"})), answer("Counted."))
    with tmux_terminal(lab) as terminal:
        terminal.start("count")
        terminal.wait_for("Counted.")
        before = terminal.wait(lambda screen: "Working" not in screen and DONE in screen)
        assert "more lines" in before
        terminal.press("C-o")
        terminal.wait_for("q back")
        terminal.press("/")
        terminal.type("Counted")
        terminal.press("Enter")
        terminal.press("n")
        terminal.press("N")
        terminal.press("y")
        terminal.wait_for("Copied.")
        terminal.press("q")
        assert terminal.wait_for(READY) == before


def test_suspended_and_continued_it_draws_again(lab: Lab) -> None:
    with tmux_terminal(lab) as terminal:
        terminal.start()
        terminal.wait_for("large")
        terminal.type("a draft")
        terminal.press("C-z")
        terminal.wait_for("Stopped")
        terminal.type("stty -a | grep -c ' icanon'")
        terminal.press("Enter")
        terminal.wait(lambda screen: "\n1\n" in screen)
        terminal.type("fg")
        terminal.press("Enter")
        terminal.wait(lambda screen: screen.rstrip().splitlines()[-2].startswith("> a draft"))
        terminal.type("!")
        terminal.wait_for("> a draft!")


def test_a_killed_engine_is_started_again_with_the_same_session(lab: Lab) -> None:
    lab.server.add(answer("First answer."), answer("Second answer."))
    with tmux_terminal(lab) as terminal:
        terminal.start("one")
        terminal.wait_for("First answer.")
        terminal.wait_for(DONE)
        (pid,) = terminal.pids("--private")
        os.kill(pid, signal.SIGKILL)
        terminal.wait_for("The engine is gone. Enter starts it again.")
        terminal.type("two")
        terminal.press("Enter")
        terminal.wait_for("Second answer.")
        assert terminal.history().count("First answer.") == 1
        assert len(terminal.pids("--private")) == 1
    assert len(lab.server.requests[-1].body["messages"]) == 3


def test_a_run_survives_the_terminal_and_is_attached_to(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("Half of ", gate, "the answer.")), answer("More."))
    with tmux_terminal(lab) as terminal, tmux_terminal(lab) as other:
        terminal.start("long task")
        terminal.wait_for("Half of")
        (session,) = [each.stem.rpartition("_")[2] for each in lab.agent.rglob("*.jsonl")
                      if "sessions" in each.parts]  # fmt: skip
        runtime = str(terminal.runtime)
        (pid,) = set(terminal.pids("ludolf")) - set(terminal.pids("--private"))
        os.kill(pid, signal.SIGKILL)
        terminal.wait_for("Killed")
        terminal.type("stty -a | grep -c ' icanon'; clear")
        terminal.press("Enter")
        terminal.wait(lambda screen: screen.strip() == "$")
        assert b"\r1\r\n" in terminal.written()
        terminal.type(" ".join((*PROGRAM, "attach", session)))
        terminal.press("Enter")
        terminal.wait_for("Half of")
        terminal.end()
        other.start("attach", session, XDG_RUNTIME_DIR=runtime)
        other.wait_for("long task")
        gate.open()
        other.wait_for("Half of the answer.")
        other.wait_for(READY)
        other.press("C-d")
        other.wait(lambda screen: screen.rstrip().endswith("$"))
        other.until(lambda: terminal.pids("--private") == [])


def test_a_session_that_cannot_be_opened_ends_the_program_with_the_reason(lab: Lab) -> None:
    with tmux_terminal(lab) as terminal:
        terminal.start("--model", "nosuch/model")
        terminal.wait_for('Error: Model "nosuch/model" not found.')
        terminal.wait(lambda screen: screen.rstrip().endswith("$"))
        terminal.type("echo code $?")
        terminal.press("Enter")
        terminal.wait_for("code 1")
        assert terminal.pids("--private") == []


def test_sigterm_stores_the_session_and_leaves_a_sane_terminal(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("Half an ", gate, "answer.")))
    with tmux_terminal(lab) as terminal:
        terminal.start("go")
        terminal.wait_for("Half an")
        (pid,) = set(terminal.pids("ludolf")) - set(terminal.pids("--private"))
        os.kill(pid, signal.SIGTERM)
        terminal.wait(lambda screen: screen.rstrip().endswith("$"))
        terminal.type("stty -a | grep -c ' icanon'")
        terminal.press("Enter")
        terminal.wait(lambda screen: "\n1\n" in screen)
        assert terminal.pids("--private") == []
        gate.open()
    (file,) = (lab.agent / "sessions").rglob("*.jsonl")
    assert "Half an" in file.read_text()


def test_a_draft_is_edited_outside_and_a_detached_session_stays(lab: Lab) -> None:
    editor = lab.root / "editor"
    editor.write_text("#!/bin/sh\necho ' and more' >> \"$1\"\n")
    editor.chmod(0o755)
    with tmux_terminal(lab) as terminal:
        terminal.start(EDITOR=str(editor))
        terminal.wait_for("large")
        terminal.type("a draft")
        terminal.press("C-g")
        terminal.wait_for("> a draft and more")
        terminal.press("C-c")
        terminal.wait_for(READY)
        terminal.type("/detach")
        terminal.press("Enter")
        screen = terminal.wait_for("To come back: ludolf attach")
        assert len(terminal.pids("--private")) == 1
        session = screen.split("ludolf attach")[1].split()[0]
        terminal.type("clear; ")
        terminal.type(" ".join((*PROGRAM, "attach", session[:20])))
        terminal.press("Enter")
        terminal.wait_for(READY)
        terminal.type("!echo a$((40+2))")
        terminal.press("Enter")
        terminal.wait_for("a42")
