"""Only the new part of a command's output is sent."""

import random

from ludolf.protocol.acp.command_output import SentOutput, exit_status
from ludolf.tools.output import OutputTail
from ludolf.tools.truncate import MAX_BYTES


def _received(chunks: list[bytes]) -> str:
    """Return what a client has after updates as the bash tool sends them."""
    sent = SentOutput()
    received = []
    with OutputTail() as tail:
        for chunk in chunks:
            tail.feed(chunk)
            shown = tail.tail()
            details = {"truncation": shown.as_json()} if shown.truncated else {}
            received.append(sent.new_part(shown.content, details))
    received.append(sent.last_part(f"{shown.content}\n\n[note]"))
    return "".join(received)


def _pieces(data: bytes, seed: int, largest: int) -> list[bytes]:
    chance = random.Random(seed)
    pieces = []
    while data:
        size = chance.randint(1, largest)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def test_updates_add_up_to_the_whole_output() -> None:
    short = "".join(f"line {number} ü\n" for number in range(1000)).encode()
    long = "".join(f"line {number} of the flood ü\n" for number in range(20_000)).encode()
    repeated = b"y\n" * 100_000
    for seed, data in enumerate((short, long, repeated)):
        received = _received(_pieces(data, seed, 3_000))
        assert received.removesuffix("\n\n[note]").rstrip() == data.decode().rstrip()


def test_output_that_no_update_carried_is_counted() -> None:
    received = _received([b"first\n", b"x\n" * MAX_BYTES, b"last\n"])
    assert received.startswith("first\n\n[") and "bytes of output are not shown]" in received
    assert received.endswith("last\n\n[note]")
    assert len(received) < 3 * MAX_BYTES


def test_a_result_without_an_update_before_it_is_sent_whole() -> None:
    sent = SentOutput()
    sent.new_part("one\n", {})
    assert sent.last_part("one\ntwo\n\nCommand aborted") == "two\n\nCommand aborted"
    assert SentOutput().last_part("(no output)") == ""
    assert SentOutput().last_part("(no output)\n\nCommand exited with code 1").startswith("Command")
    sent = SentOutput()
    sent.new_part("one\ntwo\n", {})
    assert sent.last_part("two\nthree") == "\ntwo\nthree"


def test_the_exit_status_is_read_from_the_result() -> None:
    assert exit_status("fine", is_error=False) == {"exit_code": 0, "signal": None}
    failed = exit_status("x\n\nCommand exited with code 3", is_error=True)
    assert failed == {"exit_code": 3, "signal": None}
    killed = "x\n\n[Killed by SIGKILL]\n\nCommand exited with code 137"
    assert exit_status(killed, is_error=True) == {"exit_code": None, "signal": "SIGKILL"}
    assert exit_status("Command aborted", is_error=True) == {"exit_code": None, "signal": None}
