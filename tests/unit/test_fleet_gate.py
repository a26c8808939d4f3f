"""The gate of many agents: how it widens, closes, slows down and recovers."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from itertools import count

import pytest

from ludolf.ai.access import Access
from ludolf.ai.gate import GateReport, lane_of
from ludolf.ai.http.rate_limits import gate_report
from ludolf.fleet.gate import RateGate
from tests.vendor_streams import model, request

OK = GateReport(status=200)


class Timer:
    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class StoppedClock:
    """Time passes only when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._numbers = count()
        self._timers: list[tuple[float, int, Timer]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            if not timer.cancelled:
                timer.call()
                await settle()
        self.now = end


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Crowd:
    """Requests that wait at one gate; `tickets` are those that have passed and not left."""

    def __init__(self) -> None:
        self.clock = StoppedClock()
        self.gate = RateGate(self.clock)
        self.tickets: list[int] = []
        self.passed = 0
        self.tasks: list[asyncio.Task[None]] = []

    async def come(self, number: int, lane: str = "a") -> None:
        self.tasks += [asyncio.ensure_future(self._enter(lane)) for _ in range(number)]
        await settle()

    async def _enter(self, lane: str) -> None:
        ticket = await self.gate.enter(lane)
        self.tickets.append(ticket)
        self.passed += 1

    async def answer(self, report: GateReport = OK) -> None:
        """The server answers all requests that are on their way."""
        tickets, self.tickets = self.tickets, []
        for ticket in tickets:
            self.gate.report(ticket, report)
        for ticket in tickets:
            self.gate.leave(ticket)
        await settle()

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
async def crowd() -> AsyncIterator[Crowd]:
    crowd = Crowd()
    yield crowd
    await crowd.end()


async def test_four_requests_pass_at_once_and_twice_as_many_every_five_seconds(
    crowd: Crowd,
) -> None:
    await crowd.come(100)
    widths = [len(crowd.tickets)]
    for _ in range(3):
        await crowd.clock.advance(5)
        widths.append(len(crowd.tickets))
    assert widths == [4, 8, 16, 32]
    await crowd.answer()
    assert len(crowd.tickets) == 32


async def test_idle_time_does_not_widen_the_gate(crowd: Crowd) -> None:
    await crowd.come(1)
    await crowd.answer()
    await crowd.clock.advance(600)
    await crowd.come(100)
    assert len(crowd.tickets) == 4
    await crowd.clock.advance(5)
    assert len(crowd.tickets) == 8


@pytest.mark.parametrize("status", [429, 529])
async def test_a_refusal_closes_the_gate_for_all_and_slows_it_down(
    crowd: Crowd, status: int
) -> None:
    await crowd.come(400)
    for _ in range(10):  # 4 requests each second pass
        await crowd.answer()
        await crowd.clock.advance(1)
    assert crowd.passed > 40
    await crowd.answer(GateReport(status=status))
    before = crowd.passed
    await crowd.clock.advance(1.9)
    assert crowd.passed == before
    await crowd.clock.advance(0.2)
    assert crowd.passed == before + 1  # the others follow at the lower rate


async def test_after_a_refusal_requests_leave_one_after_the_other_and_faster_with_each_answer(
    crowd: Crowd,
) -> None:
    await crowd.come(1000)
    for _ in range(10):
        await crowd.answer()
        await crowd.clock.advance(1)
    seen = crowd.passed / 10
    await crowd.answer(GateReport(status=429))
    await crowd.clock.advance(2)
    rates = []
    for _ in range(3):
        before = crowd.passed
        for _ in range(100):
            await crowd.clock.advance(0.1)
            assert len(crowd.tickets) <= 4
            await crowd.answer()
        rates.append((crowd.passed - before) / 10)
    assert 0.5 * seen < rates[0] < seen
    assert rates == sorted(rates)
    assert rates[-1] > 1.5 * rates[0]


async def test_refusals_of_requests_that_were_already_sent_count_once(crowd: Crowd) -> None:
    await crowd.come(8)
    first, second, third, _ = crowd.tickets
    crowd.gate.report(first, GateReport(status=429))
    crowd.gate.report(second, GateReport(status=429))
    await crowd.clock.advance(2)
    crowd.gate.leave(first)
    crowd.gate.report(third, GateReport(status=429))
    await crowd.clock.advance(30)
    assert crowd.passed > 4


async def test_without_a_date_each_further_refusal_doubles_the_pause(crowd: Crowd) -> None:
    await crowd.come(50)
    pauses = []
    for _ in range(4):
        since, before = crowd.clock.now, crowd.passed
        await crowd.answer(GateReport(status=429))
        while crowd.passed == before:
            await crowd.clock.advance(0.5)
        pauses.append(crowd.clock.now - since)
    assert pauses[0] == 2
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 16


async def test_the_server_decides_how_long_the_gate_is_closed(crowd: Crowd) -> None:
    await crowd.come(20)
    await crowd.answer(GateReport(status=429, retry_after=7))
    before = crowd.passed
    await crowd.clock.advance(6.9)
    assert crowd.passed == before
    await crowd.clock.advance(0.2)
    assert crowd.passed == before + 1


async def test_a_used_up_limit_closes_the_gate_until_its_reset(crowd: Crowd) -> None:
    await crowd.come(20)
    await crowd.answer(GateReport(status=200, remaining=0, reset=3))
    before = crowd.passed
    await crowd.clock.advance(2.9)
    assert crowd.passed == before
    await crowd.clock.advance(0.2)
    assert crowd.passed == before + 4


async def test_no_server_closes_the_gate_for_more_than_a_minute(crowd: Crowd) -> None:
    await crowd.come(20)
    await crowd.answer(GateReport(status=429, retry_after=1e9, remaining=0, reset=1e9))
    before = crowd.passed
    await crowd.clock.advance(60)
    assert crowd.passed > before


async def test_lanes_do_not_wait_for_each_other(crowd: Crowd) -> None:
    await crowd.come(8, "a")
    await crowd.answer(GateReport(status=429))
    before = crowd.passed
    await crowd.come(4, "b")
    assert crowd.passed == before + 4


async def test_an_aborted_request_frees_its_place_in_the_line_and_at_the_gate(
    crowd: Crowd,
) -> None:
    await crowd.come(5)
    crowd.tasks[4].cancel()
    await settle()
    await crowd.come(1)
    await crowd.answer()
    assert crowd.passed == 5


async def test_a_request_that_is_aborted_in_the_moment_of_its_turn_holds_no_place(
    crowd: Crowd,
) -> None:
    await crowd.come(5)
    crowd.gate.leave(crowd.tickets.pop())
    crowd.tasks[4].cancel()
    await settle()
    await crowd.come(2)
    assert len(crowd.tickets) == 4


async def test_unknown_tickets_are_ignored(crowd: Crowd) -> None:
    crowd.gate.report(99, GateReport(status=429))
    crowd.gate.leave(99)
    await crowd.come(1)
    assert crowd.passed == 1


# ---------------------------------------------------------------- heads and lanes


@pytest.mark.parametrize(
    ("headers", "remaining", "reset"),
    [
        ({}, None, None),
        ({"X-RateLimit-Remaining-Requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 0, 360),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "20ms"}, 5, 0.02),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "30"}, 0, 30),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000010"}, 0, 10),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000010000"}, 0, 10),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:21Z",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2023-11-14T22:13:25Z",
            },
            0,
            5,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, None, None),
        ({"x-ratelimit-remaining": "-1", "x-ratelimit-reset": "1"}, None, None),
        ({"x-ratelimit-remaining": "9" * 5000, "x-ratelimit-reset": "9" * 5000}, None, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1s" * 4000}, None, None),
    ],
)
def test_limits_are_read_in_the_forms_of_all_vendors(
    headers: dict[str, str], remaining: int | None, reset: float | None
) -> None:
    report = gate_report(200, headers, now=1_700_000_000)
    assert (report.remaining, report.reset) == (remaining, pytest.approx(reset) if reset else reset)


def test_a_lane_names_the_provider_and_never_the_key() -> None:
    def lane(key: str) -> str:
        changed = model("openai-chat", base_url="https://me:secret@host.example:8443/v1?key=secret")
        return lane_of(request("openai-chat", model=changed, access=Access(key=key)))

    one, other = lane("sk-secret"), lane("sk-other")
    assert one.startswith(f"{model('openai-chat').provider} host.example:8443 ")
    assert "secret" not in one
    assert one == lane("sk-secret") != other
