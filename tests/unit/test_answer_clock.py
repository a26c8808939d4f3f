"""The clock of questions: time passes only while it runs, and it stands still for a day at most."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ludolf.agent.questions import AnswerClock

HOUR = 3600.0


class _Skipping(selectors.DefaultSelector):
    """Instead of waiting, moves the time of its loop forward."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


class _SkippingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._times = _Skipping()
        super().__init__(self._times)

    def time(self) -> float:
        return self._times.now


async def _end(
    clock: AnswerClock,
    seconds: float | None,
    *changes: tuple[float, Callable[[asyncio.Future[str]], object]],
) -> tuple[bool, int]:
    """Wait for an answer while things happen at given times; the result, and when it came."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()
    for at, change in changes:
        loop.call_later(at, change, answer)
    came = await clock.wait(answer, seconds)
    return came, round(loop.time())


def _stop(clock: AnswerClock) -> Callable[[Any], None]:
    return lambda _: clock.stop()


def _start(clock: AnswerClock) -> Callable[[Any], None]:
    return lambda _: clock.start()


def _answer(future: asyncio.Future[str]) -> None:
    future.set_result("yes")


def _run(work: Coroutine[Any, Any, tuple[bool, int]]) -> tuple[bool, int]:
    with asyncio.Runner(loop_factory=_SkippingLoop) as runner:
        return runner.run(work)


def test_a_running_clock_ends_a_question_in_time() -> None:
    assert _run(_end(AnswerClock(), 10)) == (False, 10)
    assert _run(_end(AnswerClock(), 10, (9, _answer))) == (True, 9)
    assert _run(_end(AnswerClock(), None, (40 * HOUR, _answer))) == (True, 40 * HOUR)


def test_a_stopped_clock_continues_with_what_was_left() -> None:
    clock = AnswerClock()
    changes = ((4, _stop(clock)), (5, _stop(clock)), (1004, _start(clock)))
    assert _run(_end(clock, 10, *changes)) == (False, 1010)


def test_an_answer_counts_while_the_clock_stands_still() -> None:
    clock = AnswerClock()
    assert _run(_end(clock, 10, (4, _stop(clock)), (1000, _answer))) == (True, 1000)


def test_a_clock_that_was_stopped_before_stands_still_for_later_questions() -> None:
    clock = AnswerClock()
    clock.stop()
    assert _run(_end(clock, 10, (1000, _start(clock)))) == (False, 1010)


@pytest.mark.parametrize("seconds", [40 * HOUR, None])
def test_a_question_is_over_when_its_time_stood_still_for_a_day_in_all(
    seconds: float | None,
) -> None:
    clock = AnswerClock()
    changes = ((HOUR, _stop(clock)), (16 * HOUR, _start(clock)), (20 * HOUR, _stop(clock)))
    assert _run(_end(clock, seconds, *changes)) == (False, 29 * HOUR)


async def test_one_clock_holds_many_questions() -> None:
    clock = AnswerClock(most_seconds=30)
    clock.stop()
    loop = asyncio.get_running_loop()
    answers = [loop.create_future() for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(clock.wait(answer, 0.001)) for answer in answers]
        await asyncio.sleep(0)
        answers[1].set_result("yes")
        await asyncio.wait((waits[1],))
        assert [wait.done() for wait in waits] == [False, True, False]
        clock.start()
    assert [wait.result() for wait in waits] == [False, True, False]
