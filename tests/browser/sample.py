"""A session as people have them, for tests of the page and for its pictures."""

import base64
import io
import math
from collections.abc import Iterator
from typing import Any

from ludolf.base import dumps, iso_time
from ludolf.tools.diff import Comparison
from tests.export_page import call, entry, header, message, text

CWD = "/home/ada/projects/tidewatch"
START = 1794733238000
_CLAUDE = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-5"}
_GPT = {"api": "openai-responses", "provider": "openai", "model": "gpt-5.2-codex"}

OLD = '''\
"""Draws a tide chart as SVG."""

from tidewatch.model import Reading, Station

MARGIN = 8


class Chart:
    """One day of readings."""

    def __init__(self, station: Station, size: int = 320) -> None:
        self.station = station
        self.size = size

    def scale(self, heights: list[float]) -> list[int]:
        """Heights to pixels, the highest at the top."""
        top = max(heights)
        span = top  # lowest is sea level
        return [int((top - h) / span * self.size) for h in heights]

    def path(self, readings: list[Reading]) -> str:
        points = self.scale([r.height for r in readings])
        step = self.size / max(1, len(points) - 1)
        return "M" + " L".join(f"{i * step:.1f} {y}" for i, y in enumerate(points))
'''
NEW = OLD.replace(
    "        top = max(heights)\n        span = top  # lowest is sea level\n",
    "        top, bottom = max(heights), min(heights)\n"
    "        # A flat day has no span, but must not divide by nothing.\n"
    "        span = (top - bottom) or 1.0\n",
)
OLD_TEST = """\
def test_negative_heights_keep_their_order() -> None:
    chart = Chart(CUXHAVEN)
    # Lowest first: the picture grows downwards.
    assert chart.scale([-1.5, -1.0, -0.5]) == [0, 160, 320]
"""
NEW_TEST = OLD_TEST.replace("Lowest first: the picture grows downwards.", "Highest at the top.")
NEW_TEST = NEW_TEST.replace("[0, 160, 320]", "[320, 160, 0]")
DIAGNOSIS = '''\
## What was wrong

The chart divided by the highest reading instead of the **range** of readings:

| readings | `span` before | `span` now |
|:--|--:|--:|
| 0.4 … 3.1 m | 3.1 | 2.7 |
| −1.2 … 2.0 m | 2.0 | 3.2 |
| −1.5 … −0.5 m | **−0.5** | 1.0 |

A negative `span` turns the picture over. The fix is one line in `Chart.scale`:

```python
def scale(self, heights: list[float]) -> list[int]:
    """Heights to pixels, the highest at the top."""
    top, bottom = max(heights), min(heights)
    span = (top - bottom) or 1.0  # a flat day
    return [int((top - h) / span * self.size) for h in heights]
```

One test, `test_negative_heights_keep_their_order`, had the upside-down order written into it. Two
ways on:

1. Correct the test, since the doc string says *the highest at the top*.
2. Keep the test and flip the axis in `path()`:
   - touches every caller
   - changes the exported files

> I would do the first. See the [SVG coordinate system](https://www.w3.org/TR/SVG2/coords.html) for
> why y grows downwards.

- [x] find the cause
- [x] fix `scale`
- [ ] correct the test'''
FAILED_RUN = (
    f"\x1b[32m{'.' * 42}\x1b[0m\x1b[31mF\x1b[0m\x1b[32m.........\x1b[0m [100%]\n\n"
    f"{'=' * 35} FAILURES {'=' * 35}\n"
    + "\n".join(f"    tests/test_chart.py:{line}: in helper_{line}" for line in range(30))
    + "\n\x1b[1m\x1b[31mE       assert [320, 160, 0] == [0, 160, 320]\x1b[0m\n\n"
    "tests/test_chart.py:31: AssertionError\n"
    f"\x1b[31m{'=' * 27} \x1b[1m1 failed\x1b[0m, \x1b[32m51 passed\x1b[0m\x1b[31m in 0.84s "
    f"{'=' * 27}\x1b[0m"
)
GOOD_RUN = (
    f"\x1b[32m{'.' * 53}\x1b[0m [100%]\n\x1b[32m\x1b[1m53 passed\x1b[0m\x1b[32m in 0.79s\x1b[0m"
)
DIFF_STAT = """\
 src/tidewatch/chart.py   | 5 +++--
 tests/test_chart.py      | 4 ++--
 tests/test_chart_flat.py | 6 ++++++
 3 files changed, 11 insertions(+), 4 deletions(-)"""
FLAT_TEST = """\
from tidewatch.chart import Chart
from tests.stations import CUXHAVEN


def test_a_flat_day_is_a_straight_line() -> None:
    assert Chart(CUXHAVEN).scale([1.0, 1.0, 1.0]) == [0, 0, 0]
"""
SUMMARY = """\
## Goal
Find charts that assume non-negative values.

## Done
- `chart.py` fixed
- `wind.py`, `waves.py` read: fine

## Next
- change `pressure.py`"""
QUESTION = """\
`pressure.py` has the same mistake: pressure is stored relative to 1013 hPa, so it *can* be
negative. I have not changed it yet. Shall I?

```diff
@@ -20,3 +20,3 @@
-        span = top
+        span = (top - bottom) or 1.0
```"""


class Scribe:
    """Writes entries one after another, as an agent would, with a clock and a growing context."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.leaf: str | None = None
        self.context = 4200
        self._now = START

    def add(self, made: dict[str, Any], seconds: int = 15) -> str:
        self._now += seconds * 1000
        name = f"{0xA10C0000 + len(self.lines) * 7919:08x}"
        placed = {**made, "id": name, "parentId": self.leaf, "timestamp": iso_time(self._now)}
        if "message" in placed:
            placed["message"] = {**placed["message"], "timestamp": self._now}
        self.lines.append(placed)
        self.leaf = name
        return name

    def user(self, *blocks: dict[str, Any]) -> str:
        return self.add(message("", None, "user", content=list(blocks)), 90)

    def say(self, *blocks: dict[str, Any], stop: str = "stop", **more: Any) -> str:
        self.context += 2600
        written = sum(len(str(block)) for block in blocks) // 4 + 30
        fields = {
            **_CLAUDE,
            "content": list(blocks),
            "usage": _usage(620, written, self.context - 620, 1900),
            "stopReason": stop,
        }
        return self.add(message("", None, "assistant", **{**fields, **more}))

    def result(self, one: dict[str, Any], words: str, **more: Any) -> str:
        content = [text(words)] if words else []
        fields = {"toolCallId": one["id"], "toolName": one["name"], "content": content}
        return self.add(message("", None, "toolResult", **{"isError": False, **fields, **more}), 4)


def sample_lines() -> list[dict[str, Any]]:
    """A bug looked for, found and fixed: a fork, a failure, a compaction, two models."""
    scribe = Scribe()
    fork = _find_the_cause(scribe)
    _fix_it(scribe, fork)
    _look_elsewhere(scribe, fork)
    scribe.add(entry("", None, "session_info", name="Tide chart upside down"))
    name = "01a1de9f-9cab-7efa-b31e-8da852142bab"
    return [header(id=name, cwd=CWD, timestamp=iso_time(START)), *scribe.lines]


def sample_file() -> bytes:
    return b"".join(dumps(line) + b"\n" for line in sample_lines())


def _find_the_cause(scribe: Scribe) -> str:
    picture = {"type": "image", "data": _picture(), "mimeType": "image/png"}
    scribe.add(entry("", None, "model_change", provider="anthropic", modelId="claude-sonnet-5"))
    scribe.add(entry("", None, "thinking_level_change", thinkingLevel="medium"))
    scribe.user(
        text(
            "The tide chart is drawn upside down when the station reports **negative** heights. "
            "Find out why and fix it.\n\nHere is what it looks like for Cuxhaven:"
        ),
        picture,
    )
    searching = call("grep", "c1", pattern="def scale", path="src")
    reading = call("read", "c2", path=f"{CWD}/src/tidewatch/chart.py", offset=1, limit=60)
    scribe.say(
        _thought(
            "**Looking for the scaling code**\n\nThe chart is probably drawn from `scale()`; with "
            "negative heights the baseline may move. I look for where the y axis is computed "
            "before I guess."
        ),
        text("I'll look at how heights are scaled."),
        searching,
        reading,
        stop="toolUse",
    )
    scribe.result(
        searching,
        "src/tidewatch/chart.py:15:    def scale(self, heights: list[float]) -> list[int]:\n"
        "src/tidewatch/export.py:40:def scale_axis(axis: Axis) -> Axis:",
    )
    scribe.result(reading, OLD)
    editing = call("edit", "c3", path="src/tidewatch/chart.py", edits=[])
    scribe.say(
        text(
            "Found it: `span` assumes that the lowest height is sea level (`0`). With negative "
            "heights `span` is too small, and for a day that is negative throughout it is "
            "*negative*, which flips the chart."
        ),
        editing,
        stop="toolUse",
    )
    scribe.result(editing, "Successfully replaced 1 block(s).", details=_changes(OLD, NEW))
    testing = call("bash", "c4", command="python -m pytest tests -q 2>&1 | tail -n 40")
    scribe.say(testing, stop="toolUse")
    scribe.result(testing, FAILED_RUN, isError=True)
    looking = call("read", "c5", path="tests/test_chart.py", offset=28, limit=4)
    thought = _thought("The failing test encodes the old, wrong order.")
    scribe.say(thought, looking, stop="toolUse")
    scribe.result(looking, OLD_TEST)
    fork = scribe.say(text(DIAGNOSIS))
    scribe.add(entry("", None, "label", targetId=fork, label="diagnosis"))
    return fork


def _fix_it(scribe: Scribe, fork: str) -> None:
    scribe.leaf = fork
    scribe.user(text("Do the second one, I want to keep the test as it is."))
    flip = {"oldText": "points = self.scale(heights)", "newText": "points = self.flip(heights)"}
    flipping = call("edit", "c6", path="src/tidewatch/chart.py", edits=[flip])
    scribe.say(text("Then I flip the axis where the path is made."), flipping, stop="toolUse")
    missed = "Could not find the exact text in src/tidewatch/chart.py."
    scribe.result(flipping, missed, isError=True)
    scribe.say(stop="aborted", errorMessage="Request was aborted")
    left = (
        "Tried to flip the axis in `path()` instead of correcting the test; the edit did not apply."
    )
    scribe.leaf = fork
    scribe.add(entry("", None, "branch_summary", fromId=fork, summary=left))
    scribe.user(text("Do the first one. And add a test for a flat day."))
    writing = call("write", "c7", path="tests/test_chart_flat.py", content=FLAT_TEST)
    editing = call("edit", "c8", path="tests/test_chart.py", edits=[])
    scribe.say(writing, editing, stop="toolUse")
    scribe.result(writing, "Successfully wrote 214 bytes to tests/test_chart_flat.py")
    scribe.result(
        editing, "Successfully replaced 1 block(s).", details=_changes(OLD_TEST, NEW_TEST)
    )
    testing = call("bash", "c9", command="python -m pytest tests -q")
    scribe.say(testing, stop="toolUse")
    scribe.result(testing, GOOD_RUN)
    scribe.say(
        text(
            "Both done; all **53 tests** pass. The new test covers a flat day, where `span` would "
            "have been zero."
        )
    )
    run = {"command": "git diff --stat", "output": DIFF_STAT, "exitCode": 0}
    flags = {"cancelled": False, "truncated": False}
    scribe.add(message("", None, "bashExecution", **run, **flags))


def _look_elsewhere(scribe: Scribe, fork: str) -> None:
    scribe.context = 148_000
    scribe.user(text("Now go through all other charts and look for the same mistake."))
    for number, name in enumerate(("wind", "waves", "pressure", "moon", "sun", "current")):
        reading = call("read", f"d{number}", path=f"src/tidewatch/charts/{name}.py")
        scribe.say(reading, stop="toolUse")
        scribe.result(reading, f"import math\n\n\nclass {name.title()}Plot:\n    floor = 0.0\n")
    told = {"summary": SUMMARY, "firstKeptEntryId": fork, "tokensBefore": 163_400}
    scribe.add(entry("", None, "compaction", **told, usage=_usage(9000, 600, 0, 0)))
    scribe.context = 9000
    scribe.add(entry("", None, "model_change", provider="openai", modelId="gpt-5.2-codex"))
    scribe.add(entry("", None, "thinking_level_change", thinkingLevel="high"))
    asking = call("ask_oracle", "e1", question="Does pressure.py need a baseline?", depth=2)
    thought = _thought("Only the pressure chart is left. The oracle may know what is meant.")
    scribe.say(thought, asking, stop="toolUse", **_GPT)
    scribe.result(asking, "Yes: pressure is relative to 1013 hPa, so it can be negative.")
    scribe.say(text(QUESTION), **_GPT)
    scribe.user(text("Yes please, and mind https://example.org/tides?station=620."))
    scribe.say(stop="error", errorMessage="429 Too many requests", **_GPT)


# ---------------------------------------------------------------- pieces


def _usage(sent: int, written: int, read: int, stored: int) -> dict[str, Any]:
    cost = {
        "input": sent * 3e-6,
        "output": written * 15e-6,
        "cacheRead": read * 0.3e-6,
        "cacheWrite": stored * 3.75e-6,
    }
    return {
        "input": sent,
        "output": written,
        "cacheRead": read,
        "cacheWrite": stored,
        "totalTokens": sent + written + read + stored,
        "cost": {**cost, "total": sum(cost.values())},
    }


def _thought(words: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words}


def _changes(old: str, new: str) -> dict[str, Any]:
    return {"diff": Comparison(old, new).numbered()}


def _picture() -> str:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (640, 200), "#fdfdfb")
    draw = ImageDraw.Draw(image)
    for y in range(20, 200, 40):
        draw.line((0, y, 640, y), fill="#e4e4de")
    curve = [(x, 100 + 65 * math.sin(x / 60)) for x in range(0, 641, 4)]
    draw.polygon([(0, 200), *curve, (640, 200)], fill="#cfe6f2")
    draw.line(curve, fill="#2b7ba8", width=3)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


# ---------------------------------------------------------------- a long one

_ANSWER = (
    "## Step\n\nI changed `foo` in **bar**, see [docs](https://example.org/z).\n\n- one\n- two\n\n"
    "```python\ndef f(x):\n    return x + 1  # comment\n```\n\n"
    + "Lorem ipsum dolor sit amet. "
    * 10
)
_OUTPUT = "\n".join(f"line {number}: some output of a tool with words" for number in range(60))


def long_lines(count: int, branches: int = 1) -> Iterator[dict[str, Any]]:
    """A session of so many entries, evenly over branches that part after the first prompt."""
    yield header()
    yield message("u0", None, "user", content="the root of it all")
    for branch in range(branches):
        parent, made = "u0", 0
        while made < (count - 1) // branches:
            name, place = f"b{branch}n{made}", made % 9
            if place == 0:
                yield message(name, parent, "user", content=f"prompt {branch}.{made // 9}: go on")
            elif place % 2:
                run = call("bash", name, command=f"make step-{made}")
                yield _long_answer(name, parent, run)
            else:
                yield _long_result(name, parent)
            parent, made = name, made + 1


def _long_answer(name: str, parent: str, run: dict[str, Any]) -> dict[str, Any]:
    fields = {**_CLAUDE, "usage": _usage(10, 20, 1000, 0), "stopReason": "toolUse"}
    return message(name, parent, "assistant", content=[text(_ANSWER), run], **fields)


def _long_result(name: str, parent: str) -> dict[str, Any]:
    fields = {"toolCallId": parent, "toolName": "bash", "isError": False}
    return message(name, parent, "toolResult", content=[text(_OUTPUT)], **fields)
