"""What oh-my-pi's dialect makes of results and of the ends of retries."""

from typing import Any

import pytest

from ludolf.agent.events import ToolEnd, ToolStart
from ludolf.agent.tool import ToolOutput, text_output
from ludolf.ai.messages import Text
from ludolf.base import loads
from ludolf.protocol.dialects.omp import Omp
from ludolf.protocol.dialects.omp_messages import OmpMessages
from ludolf.protocol.events import AutoRetryEnd, AutoRetryStart
from ludolf.protocol.framing import Reply


def _told(frame: Any) -> list[dict[str, Any]]:
    return [loads(line) for line in (frame or b"").splitlines()]


def _end(dialect: Omp, output: ToolOutput, *, is_error: bool, name: str = "look") -> dict[str, Any]:
    dialect.event(ToolStart(tool_call_id="c", tool_name=name, args={}))
    event = ToolEnd(tool_call_id="c", tool_name=name, result=output, is_error=is_error)
    (record,) = _told(dialect.event(event))
    result: dict[str, Any] = record["result"]
    return result


@pytest.mark.parametrize(
    ("text", "details", "is_marked"),
    [
        ("bad", {"k": 1}, True),
        ("bad", {}, False),
        ("bad", ["k"], False),
        ("Skipped", {"__synthetic": True, "executed": False}, False),
        ('Validation failed for tool "look": no', {}, False),
    ],
)
def test_only_a_bad_result_with_details_of_its_own_is_marked_inside(
    text: str, details: Any, is_marked: bool
) -> None:
    result = _end(Omp(), text_output(text, details), is_error=True)
    assert result.get("isError", False) is is_marked


def test_details_that_are_no_object_stay_as_they_are() -> None:
    result = _end(Omp(), text_output("ok", [1, 2]), is_error=False)
    assert result["details"] == [1, 2]


def test_what_an_aborted_command_had_said_comes_behind_the_word_for_it() -> None:
    output = text_output("half\n\nCommand aborted", {})
    result = _end(Omp(), output, is_error=True, name="bash")
    assert result["content"] == [{"type": "text", "text": "[Command cancelled]\nhalf\n"}]


def test_what_a_cancelled_direct_command_had_said_comes_behind_the_word_for_it() -> None:
    said = {"role": "bashExecution", "output": "begin\n", "cancelled": True}
    assert OmpMessages().complete(said)["output"] == "[Command cancelled]\nbegin\n"


def test_the_wall_time_ends_the_last_text_of_a_command() -> None:
    output = ToolOutput(content=(Text(text="note"), Text(text="said\n")))
    result = _end(Omp(), output, is_error=False, name="bash")
    first, last = result["content"]
    assert first["text"] == "note"
    assert last["text"].startswith("said\n\n\nWall time: ")
    assert last["text"].endswith(" seconds")


def test_the_end_of_retries_waits_only_for_the_reply_of_who_stopped_them() -> None:
    dialect = Omp()
    start = AutoRetryStart(attempt=1, max_attempts=3, delay_ms=1, error_message="529")
    end = AutoRetryEnd(success=False, attempt=1, final_error="Retry cancelled")
    dialect.event(start)
    (told,) = _told(dialect.event(end))
    dialect.begun("abort_retry")
    held = dialect.event(end)
    behind = _told(dialect.reply(Reply(command="abort_retry")))
    again = _told(dialect.event(end))
    assert [error["attempt"] for error in told["retryErrors"]] == [1]
    assert held is None
    assert [record["type"] for record in behind] == ["response", "auto_retry_end"]
    assert len(again) == 1
