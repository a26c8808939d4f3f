"""Count the files that a plain prompt enters, and the calls that leave their file.

Runs one warm prompt with a text answer on the in-process stage of the tests, without extensions.

    .venv/bin/python scripts/trace_prompt.py [--list]
"""

import asyncio
import collections
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.loop.stage import say, stage  # noqa: E402 - needs the path above

SOURCE = str(ROOT / "src" / "ludolf")


class Trace:
    """A profiler that counts calls of functions below `SOURCE`."""

    def __init__(self) -> None:
        self.files: collections.Counter[str] = collections.Counter()
        self.leaving: collections.Counter[tuple[str, str]] = collections.Counter()
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        file = frame.f_code.co_filename
        # A frame that was entered before is a generator or coroutine that continues.
        if event != "call" or not file.startswith(SOURCE) or frame.f_lasti > 0:
            return
        if frame.f_code.co_name.startswith("<"):
            return
        self.calls += 1
        self.files[file] += 1
        caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        if caller.startswith(SOURCE) and caller != file:
            self.leaving[(caller, file)] += 1


async def trace(folder: Path) -> Trace:
    """Return the trace of the second of two prompts."""
    async with stage(folder, say("Hello."), say("Hello again.")) as here:
        await here.run("Hi")
        profile = Trace()
        sys.setprofile(profile)
        try:
            await here.run("Hi again")
        finally:
            sys.setprofile(None)
    return profile


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        profile = asyncio.run(trace(Path(folder)))
    leaving = sum(profile.leaving.values())
    sys.stdout.write(f"{len(profile.files)} files, {profile.calls} calls, {leaving} leave a file\n")
    if "--list" in sys.argv:
        for (caller, file), count in profile.leaving.most_common(60):
            names = (str(Path(name).relative_to(SOURCE)) for name in (caller, file))
            sys.stdout.write(f"{count:5} {' -> '.join(names)}\n")


if __name__ == "__main__":
    main()
