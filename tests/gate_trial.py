"""How a gate fares with a strict server: 600 requests a minute, 100 items with 3 requests each.

Run it with `python -m tests.gate_trial`; it takes about two minutes.
"""

import asyncio
import sys
import time
from collections.abc import Mapping

from ludolf import create_session
from ludolf.fleet.gate import RateGate
from ludolf.sdk import PromptFailed, RequestGate
from tests.limited_model import LimitedModel, note

ITEMS = 100
AT_ONCE = 50


async def _item(server: LimitedModel, gate: RequestGate, places: asyncio.Semaphore) -> bool:
    session = create_session(
        model=server.model, api_key="k", settings={}, builtin_tools=(), tools=[note], gate=gate
    )
    async with places, session:
        try:
            await session.prompt("go")
        except PromptFailed:
            return False
        return True


async def _trial(refusal: Mapping[str, str], burst: int) -> None:
    gate, places, since = RateGate(), asyncio.Semaphore(AT_ONCE), time.monotonic()
    with LimitedModel(per_second=10, burst=burst, refusal=refusal) as server:
        items = (_item(server, gate, places) for _ in range(ITEMS))
        done = await asyncio.gather(*items)
        seconds = time.monotonic() - since
        sys.stdout.write(
            f"{dict(refusal)} burst {burst}: {done.count(False)} items failed, "
            f"{server.refused} requests refused, {len(server.requests)} passed, {seconds:.0f} s\n"
        )


async def main() -> None:
    for burst in (10, 60):
        await _trial({}, burst)
        await _trial({"retry-after": "1"}, burst)


if __name__ == "__main__":
    asyncio.run(main())
