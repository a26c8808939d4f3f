"""Draws are as few as the rules allow, and the last state is always drawn."""

import asyncio

from ludolf.tui.pace import DrawPace


class Drawings:
    """Counts draws, and notes the newest state that was drawn."""

    def __init__(self) -> None:
        self.count = 0
        self.state = self.drawn = 0
        self.event = asyncio.Event()

    def draw(self) -> None:
        self.count += 1
        self.drawn = self.state
        self.event.set()


async def _until_drawn(drawings: Drawings) -> None:
    while drawings.drawn != drawings.state:
        drawings.event.clear()
        await asyncio.wait_for(drawings.event.wait(), 30)


async def test_a_key_is_drawn_at_once_and_a_stream_now_and_then() -> None:
    drawings = Drawings()
    pace = DrawPace(drawings.draw, asyncio.get_running_loop(), stream_seconds=0.05)
    pace.now()
    assert drawings.count == 1
    for drawings.state in range(1, 1001):
        pace.soon()
    assert drawings.count == 1
    await _until_drawn(drawings)
    assert drawings.count == 2
    for count in (3, 4):
        pace.now()
        assert drawings.count == count


async def test_nothing_is_drawn_until_the_size_has_settled() -> None:
    drawings = Drawings()
    pace = DrawPace(drawings.draw, asyncio.get_running_loop(), settle_seconds=0.05)
    for drawings.state in range(1, 10):
        pace.resized()
        pace.now()
        pace.soon()
    assert drawings.count == 0
    await _until_drawn(drawings)
    assert drawings.count == 1


async def test_no_timer_is_left_when_all_is_drawn_or_closed() -> None:
    drawings = Drawings()
    pace = DrawPace(drawings.draw, asyncio.get_running_loop(), stream_seconds=3600)
    pace.soon()
    pace.soon()
    assert drawings.count == 1
    pace.now()
    pace.soon()
    pace.close()
    await asyncio.sleep(0)
    assert drawings.count == 2
