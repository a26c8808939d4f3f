"""Code that blocks the event loop is named."""

import asyncio
import threading
from pathlib import Path

from ludolf.serve.loop_watch import LoopWatch

SOURCE = """
def block(reported):
    reported.wait(30)
"""


async def test_code_that_blocks_the_loop_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "slow_extension.py"
    file.write_text(SOURCE)
    scope: dict[str, object] = {}
    exec(compile(SOURCE, str(file), "exec"), scope)
    said: list[str] = []
    reported = threading.Event()

    def report(text: str) -> None:
        said.append(text)
        reported.set()

    watch = LoopWatch(report, seconds=0.05)
    watch.start()
    try:
        block = scope["block"]
        assert callable(block)
        block(reported)
        await asyncio.sleep(0)
    finally:
        watch.stop()
    assert len(said) == 1
    assert said[0].startswith(f"{file}:3 has blocked the server")
