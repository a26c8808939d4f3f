"""Lines in and out."""

from tests.conformance.proof import proves
from tests.conformance.stage import Stage, users
from tests.process.script import answer

SEPARATORS = "a\u2028b\u2029c"


@proves("RPC4-overview-01", "RPC4-framing-01")
def test_only_a_line_feed_ends_a_record(stage: Stage) -> None:
    odd = "\u2028\u2029\u0085"
    raw = '{"id":"' + odd + '","type":"get_messages"}'
    told = stage.feed(raw.encode() + b"\n", b'{"id":"half",', b'"type":"get_state"}', b"\n")
    assert [(reply["id"], reply["command"]) for reply in told] == [
        (odd, "get_messages"),
        ("half", "get_state"),
    ]


@proves("RPC4-framing-03")
def test_cr_before_lf_is_dropped(stage: Stage) -> None:
    told = stage.feed(b'{"id":1,"type":"get_messages"}\r\n{"id":2,"type":"get_messages"}\n')
    assert [(reply["id"], reply["success"]) for reply in told] == [(1, True), (2, True)]


@proves("RPC4-framing-04")
async def test_unicode_separators_in_a_command_are_data(stage: Stage) -> None:
    stage.server.add(answer("Hi."))
    raw = '{"id":"p","type":"prompt","message":"' + SEPARATORS + '"}\n'
    async with stage.client() as client:
        await client.process.write(raw.encode())
        assert (await client.reply_to("p"))["success"]
        told = await client.collect("agent_settled")
    assert users(told) == [SEPARATORS]
