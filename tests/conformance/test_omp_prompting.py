"""oh-my-pi: start, prompts, queues and their modes, interruption, errors."""

from ludolf.base import loads
from ludolf.client import Record
from tests.conformance.proof import proves
from tests.conformance.stage import (
    PIXEL,
    Stage,
    is_piece,
)
from tests.process.harness import RPC, only, text_of
from tests.process.script import answer

STATE = b'{"type":"get_state"}\n'
SOURCE = {"type": "base64", "mediaType": "image/png", "data": PIXEL}
LINK = {"type": "url", "url": "https://example.com/dot.png"}
MODES = ("set_steering_mode", "set_follow_up_mode")


# ---------------------------------------------------------------- start


def _state(stage: Stage, *arguments: str) -> Record:
    done = stage.run(*arguments, stdin=STATE, program=RPC)
    assert done.code == 0, done.stderr
    (reply,) = only(done.records, "response")
    found: Record = reply["data"]
    return found


@proves("RPC2-start-02", "RPC2-start-03", "RPC2-start-04")
def test_options_choose_model_and_storage(stage: Stage) -> None:
    stage.add_model("chat", id="tiny-1")
    state = _state(stage, "--provider", "chat", "--model", "tiny-1", "--no-session")
    assert (state["model"]["provider"], state["model"]["id"]) == ("chat", "tiny-1")
    assert "sessionFile" not in state


@proves("RPC2-intro-01", "RPC2-start-01", "RPC2-start-05")
async def test_the_process_stays_and_stores_where_it_is_told_to(stage: Stage) -> None:
    stage.server.add(answer("One."), answer("Two."))
    folder = stage.root / "elsewhere"
    async with stage.client("--session-dir", str(folder)) as client:
        for said in ("One.", "Two."):
            await client.request("prompt", message="Go")
            end = await client.wait_for("agent_end")
            assert text_of(end["messages"][-1]) == said
    assert len(list(folder.rglob("*.jsonl"))) == 1
    assert stage.sessions == []


@proves("RPC2-overview-04")
def test_the_output_is_json_lines_as_a_whole(stage: Stage) -> None:
    stage.server.add(answer("Hi \u2028 there.", size=3))
    with stage.popen("--no-session") as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(b'{"type":"prompt","message":"Go"}\n')
        out = b""
        while b'"agent_end"' not in out:
            # Small reads cut records, and characters in them, at any byte.
            out += program.stdout.read(61) or b""
        program.stdin.close()
        out += program.stdout.read()
    records = [loads(line) for line in out.decode().split("\n") if line]
    said = [one["assistantMessageEvent"]["delta"] for one in records if is_piece(one)]
    assert "".join(said) == "Hi \u2028 there."
