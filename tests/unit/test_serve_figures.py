"""The figures of the server: counted, measured, and written for Prometheus."""

import asyncio
import re
import time

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.serve.figures import LoopLag, ServerFigures, metrics_text, resident_bytes

_ROW = re.compile(r"# HELP (\w+) [^\n]+\n# TYPE (\w+) (counter|gauge)\n(\w+) ([-+.0-9e]+)\n")


def test_every_counter_and_gauge_has_its_text_type_and_value() -> None:
    figures = ServerFigures(frames=7, refused_logins=2)
    gauges = {"clients": 3, "loop_lag_seconds": 0.25, "resident_memory_bytes": 4.5e7}
    text = metrics_text(figures, gauges)
    rows = _ROW.findall(text)
    assert "".join(match[0] for match in _ROW.finditer(text)) == text
    assert all(first == second == third for first, second, _, third, _ in rows)
    values = {name: (kind, float(value)) for name, _, kind, _, value in rows}
    assert values["ludolf_frames_total"] == ("counter", 7)
    assert values["ludolf_refused_logins_total"] == ("counter", 2)
    assert values["ludolf_clients"] == ("gauge", 3)
    assert values["ludolf_loop_lag_seconds"] == ("gauge", 0.25)
    counters = {name for name, (kind, _) in values.items() if kind == "counter"}
    assert counters == {
        f"ludolf_{field.name}_total" for field in msgspec.structs.fields(ServerFigures)
    }


def test_the_memory_of_the_process_is_known() -> None:
    assert 1 << 20 < resident_bytes() < 1 << 40


async def test_a_blocked_loop_lags_and_a_free_one_recovers() -> None:
    lag, tasks = LoopLag(every_seconds=0.001), Tasks()
    assert lag.seconds == lag.worst == 0
    tasks.start(lag.measure())
    await asyncio.sleep(0)
    _block()
    assert lag.seconds > 0.01  # seen before the task itself runs
    async with asyncio.timeout(30):
        while lag.seconds > 0.01:  # noqa: ASYNC110 (until the next measurement)
            await asyncio.sleep(0)
    assert lag.worst > 0.01
    await tasks.close()
    assert lag.seconds < 0.01


def _block() -> None:
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        pass
