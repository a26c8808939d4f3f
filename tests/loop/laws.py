"""The order laws of everything a host is told, checked over a log of both directions.

settled-run = run { post run } [ structured_output ] agent_settled
run         = agent_start turn { between turn } [ limit_reached ] agent_end
turn        = turn_start { message_start message_end } answer [ auto_retry_end ] [ tools ] turn_end
answer      = message_start(assistant) { message_update } message_end(assistant)
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from tests.loop.law_of_commands import CommandLaws
from tests.loop.law_of_queue import QueueLaws
from tests.loop.law_of_tools import ToolLaws

Record = dict[str, Any]
# idle: at rest; between: in a run, outside turns; post: a run is over, more may follow.
Phase = Literal["idle", "between", "inject", "answer", "tools", "ending", "post"]
ANYWHERE = (
    "bash_execution_update",
    "thinking_level_changed",
    "session_info_changed",
    "warning",
    "entry_appended",
    "mcp_server",
)


class Sent(msgspec.Struct, frozen=True):
    """What the host said."""

    record: Record


class Said(msgspec.Struct, frozen=True):
    """What the program said."""

    record: Record


Log = list[Sent | Said]


class LawBroken(AssertionError):
    """What was said is against an order law; the text names the law and shows the place."""


def check(log: Sequence[Sent | Said], *, ended: bool = True) -> None:
    """Hold a whole log against all laws; `ended` says that nothing more will come.

    Raises:
        LawBroken: the first law that is broken.
    """
    laws = Laws()
    for place, item in enumerate(log):
        try:
            if isinstance(item, Sent):
                laws.commands.sent(item.record, laws)
            else:
                laws.said(item.record)
        except AssertionError as error:
            raise LawBroken(f"{error}\n{_show(log, place)}") from None
    if ended:
        try:
            laws.end()
        except AssertionError as error:
            raise LawBroken(f"{error}\n{_show(log, len(log))}") from None


class Laws:
    """Walks along the frames; every method asserts what may come where."""

    def __init__(self) -> None:
        self.phase: Phase = "idle"
        self.queue = QueueLaws()
        self.commands = CommandLaws()
        self.tools = ToolLaws([])
        self._open: Record | None = None
        self._deltas: dict[int, str] = {}
        self._turns = 0
        self._run: list[Record] = []
        self._results: list[Record] = []
        self._answer: Record = {}
        self._compacting: list[str] = []
        self._retrying = False
        self._will_retry = False
        self._cause: str | None = None
        self._limited = False
        self.settled = 0

    @property
    def waiting(self) -> tuple[list[str], list[str]]:
        return self.queue.lines

    @property
    def streaming(self) -> bool:
        return self.phase != "idle" or self.commands.accepted is not None

    def said(self, record: Record) -> None:
        kind = record["type"]
        if kind == "response":
            self.queue.replied(record)
            self.commands.replied(record, self)
            return
        assert not self._limited or kind in ("agent_end", *ANYWHERE, "queue_update"), (
            f"{kind} after a limit was reached"
        )
        if kind not in ANYWHERE:
            handle: Callable[[Record], None] | None = getattr(self, f"_{kind}", None)
            assert handle is not None, f"an event that no law knows: {kind}"
            handle(record)

    def end(self) -> None:
        assert self.phase == "idle", f"it ended in phase {self.phase}"
        assert self.commands.accepted is None, "an accepted prompt never ran"
        assert not self._compacting, "a compaction never ended"
        self.commands.end()

    # ------------------------------------------------------------ the run

    def _agent_start(self, record: Record) -> None:
        assert self.phase in ("idle", "post"), f"agent_start in phase {self.phase}"
        assert not self._automatic, f"agent_start while compacting {self._compacting}"
        if self.phase == "idle":
            assert self.commands.accepted is not None, "a run that nobody asked for"
            self.queue.prompted(self.commands.accepted)
            self.commands.accepted = None
        else:
            assert self._cause or len(self.queue), "a further run without a cause"
        self._cause, self._run, self._turns, self._limited = None, [], 0, False
        self.phase = "between"

    def _agent_end(self, record: Record) -> None:
        assert self.phase == "between", f"agent_end in phase {self.phase}"
        assert self._turns > 0, "a run without a turn"
        assert not self._automatic, "a run ended while compacting"
        assert record["messages"] == self._run, "agent_end does not hold the messages of its run"
        self._will_retry = record["willRetry"]
        failed = self._answer["stopReason"] == "error"
        assert failed or not self._will_retry, "willRetry after an answer that did not fail"
        self.phase, self._limited = "post", False

    def _agent_settled(self, record: Record) -> None:
        assert self.phase == "post", f"agent_settled in phase {self.phase}"
        assert not self._retrying, "settled while a retry was announced"
        if not self.commands.stopping:
            assert not self._will_retry, "willRetry, yet no retry was announced"
        self._will_retry = False
        assert not self._automatic, "settled while compacting"
        self.phase = "idle"
        self.settled += 1

    def _structured_output(self, record: Record) -> None:
        assert self.phase == "post", f"structured_output in phase {self.phase}"
        assert ("value" in record) != ("error" in record), "a value and an error, or neither"

    def _limit_reached(self, record: Record) -> None:
        assert self.phase == "between", f"limit_reached in phase {self.phase}"
        self._limited = True

    # ------------------------------------------------------------ turns and messages

    def _turn_start(self, record: Record) -> None:
        assert self.phase == "between", f"turn_start in phase {self.phase}"
        assert not self._automatic, "a turn began while compacting"
        self._turns += 1
        self._results = []
        self.phase = "inject"

    def _turn_end(self, record: Record) -> None:
        assert self.phase == "ending" or (self.phase == "tools" and self.tools.done), (
            f"turn_end in phase {self.phase}"
        )
        assert self._open is None, "turn_end within a message"
        assert record["message"] == self._answer, "turn_end holds another answer"
        assert record["toolResults"] == self._results, "turn_end holds other results"
        self.phase = "between"

    def _message_start(self, record: Record) -> None:
        message = record["message"]
        role = message["role"]
        assert self._open is None, f"message_start {role} within another message"
        if role == "assistant":
            assert self.phase == "inject", f"an answer in phase {self.phase}"
            assert not self.queue.taken, f"taken from the queue, not delivered: {self.queue.taken}"
            self.phase, self._deltas = "answer", {}
        elif role == "toolResult":
            assert self.phase == "tools", f"a result in phase {self.phase}"
            self.tools.result(message["toolCallId"])
        else:
            assert self.phase == "inject", f"message_start {role} in phase {self.phase}"
            if role == "user":
                self.queue.delivered(text_of(message))
        self._open = message

    def _message_update(self, record: Record) -> None:
        assert self._open is not None, "message_update outside a message"
        assert self._open["role"] == "assistant", "message_update of no answer"
        event = record["assistantMessageEvent"]
        if event["type"].endswith("_delta"):
            index = event["contentIndex"]
            self._deltas[index] = self._deltas.get(index, "") + event["delta"]

    def _message_end(self, record: Record) -> None:
        message = record["message"]
        assert self._open is not None, "message_end without message_start"
        assert self._open["role"] == message["role"], "message_end of another role"
        self._run.append(message)
        if message["role"] == "assistant":
            self._check_deltas(message)
            self._answered(message)
        else:
            assert self._open == message, "a message changed between start and end"
            if message["role"] == "toolResult":
                self._results.append(message)
        self._open = None

    def _answered(self, message: Record) -> None:
        self._answer = message
        calls = [block["id"] for block in message["content"] if block["type"] == "toolCall"]
        if calls and message["stopReason"] not in ("error", "aborted"):
            self.phase, self.tools = "tools", ToolLaws(calls)
        else:
            self.phase = "ending"

    def _check_deltas(self, message: Record) -> None:
        for index, said in self._deltas.items():
            block = message["content"][index]
            if block["type"] != "toolCall":
                whole = block.get("text", block.get("thinking"))
                assert whole == said, "the pieces of an answer are not its text"

    # ------------------------------------------------------------ tools

    def _tool_execution_start(self, record: Record) -> None:
        assert self.phase == "tools", f"tool_execution_start in phase {self.phase}"
        assert self._open is None, "a tool began within a message"
        self.tools.start(record["toolCallId"])

    def _tool_execution_update(self, record: Record) -> None:
        assert self.phase == "tools", f"tool_execution_update in phase {self.phase}"
        self.tools.update(record["toolCallId"])

    def _tool_execution_end(self, record: Record) -> None:
        assert self.phase == "tools", f"tool_execution_end in phase {self.phase}"
        self.tools.end(record["toolCallId"])

    # ------------------------------------------------------------ around the run

    def _queue_update(self, record: Record) -> None:
        self.queue.update(record, delivering=self.phase == "inject")

    def _auto_retry_start(self, record: Record) -> None:
        assert self.phase == "post", f"auto_retry_start in phase {self.phase}"
        assert self._will_retry, "a retry that agent_end did not announce"
        assert record["attempt"] <= record["maxAttempts"]
        self._will_retry, self._retrying, self._cause = False, True, "retry"

    def _auto_retry_end(self, record: Record) -> None:
        assert self._retrying, "a retry ended that had not begun"
        if record["success"]:
            assert self.phase in ("ending", "tools"), f"a retry succeeded in phase {self.phase}"
        else:
            assert self.phase == "post", f"a retry failed in phase {self.phase}"
        self._retrying, self._cause = False, None

    @property
    def _automatic(self) -> bool:
        return any(reason != "manual" for reason in self._compacting)

    def _compaction_start(self, record: Record) -> None:
        reason = record["reason"]
        places: dict[str, tuple[Phase, ...]] = {
            "threshold": ("idle", "between", "post"),
            "overflow": ("post",),
            # One that is refused stops nothing; its end must say so.
            "manual": ("idle", "between", "inject", "answer", "tools", "ending", "post"),
        }
        assert self.phase in places[reason], f"compaction {reason} in phase {self.phase}"
        assert reason not in self._compacting, f"two compactions at once: {reason}"
        if reason != "manual":
            assert not self._compacting, f"two compactions at once: {self._compacting} {reason}"
        self._compacting.append(reason)

    def _compaction_end(self, record: Record) -> None:
        reason = record["reason"]
        given_up = reason == "overflow" and record.get("errorMessage") and self.phase == "post"
        assert reason in self._compacting or given_up, "a compaction ended that had not begun"
        if reason in self._compacting:
            self._compacting.remove(reason)
        done = record.get("result") is not None
        assert sum((done, record["aborted"], "errorMessage" in record)) == 1, record
        if reason == "manual" and done:
            assert self.phase == "idle", f"compacted by hand in phase {self.phase}"
        if record["willRetry"]:
            assert (reason, done) == ("overflow", True)
            self._cause = "recovery"

    def _summarization_retry_scheduled(self, record: Record) -> None:
        assert record["attempt"] <= record["maxAttempts"]

    def _summarization_retry_attempt_start(self, record: Record) -> None:
        if record["source"] == "compaction":
            assert record["reason"] in self._compacting, "a summary of no compaction"

    def _summarization_retry_finished(self, record: Record) -> None:
        """May come wherever a summary may be asked for."""

    def compacting(self) -> bool:
        return bool(self._compacting)


def text_of(message: Record) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")


def _show(log: Sequence[Sent | Said], place: int) -> str:
    near = list(enumerate(log))[max(0, place - 40) : place + 4]
    return "\n".join(f"{'=>' if n == place else '  '} {_line(item)}" for n, item in near)


def _line(item: Sent | Said) -> str:
    return f"{'>' if isinstance(item, Sent) else '<'} {str(item.record)[:180]}"
