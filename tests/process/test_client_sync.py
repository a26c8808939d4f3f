"""The client without asyncio: every call waits, and nothing is left behind."""

import threading
from collections.abc import Iterator

import pytest

from ludolf.client import MessageUpdate, Refused, sync
from tests.process.harness import RPC, WAIT_SECONDS, Lab, survivors
from tests.process.script import Gate, answer, call


def echo(text: str) -> str:
    """Say it again."""
    return text


@pytest.fixture
def blocking(lab: Lab) -> Iterator[sync.Client]:
    with sync.Client(program=RPC, cwd=lab.work, env=lab.env, tools=[echo]) as client:
        yield client


def test_every_call_waits(lab: Lab, blocking: sync.Client) -> None:
    lab.server.add(answer(call("echo", {"text": "hi"})), answer("Done."))
    done = blocking.prompt_and_wait("Go")
    assert (done.text, len(done.messages)) == ("Done.", 4)
    assert blocking.get_state().message_count == 4
    assert blocking.bash("echo hi").output == "hi\n"
    with pytest.raises(Refused):
        blocking.set_model("claude", "small")


def test_events_are_iterated_over(lab: Lab, blocking: sync.Client) -> None:
    lab.server.add(answer("One two.", size=4), answer("Three.", size=3))
    kinds = [type(event).__name__ for event in blocking.stream("Go")]
    assert (kinds[0], kinds[-1]) == ("AgentStart", "AgentSettled")
    assert list(blocking.stream_text("More")) == ["Thr", "ee."]


def test_a_loop_left_early_aborts_the_run_here_too(lab: Lab, blocking: sync.Client) -> None:
    gate = Gate()
    lab.server.add(answer("Begun", gate, "never"), answer("Here."))
    for event in blocking.stream("Go"):
        if isinstance(event, MessageUpdate):
            break
    assert blocking.prompt_and_wait("Again").text == "Here."
    gate.open()


def test_the_thread_ends_with_the_client(lab: Lab) -> None:
    before = set(threading.enumerate())
    with sync.Client(program=RPC, cwd=lab.work, env=lab.env) as client:
        pid = client.pid
        assert client.ask("get_state")["messageCount"] == 0
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_SECONDS)
    assert set(threading.enumerate()) <= before
    assert survivors([pid]) == []


def test_a_failing_host_leaves_no_program_behind(lab: Lab) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        sync.Client(program=RPC, cwd=lab.work, env=lab.env) as client,
    ):
        pid = client.pid
        raise ZeroDivisionError
    assert survivors([pid]) == []
