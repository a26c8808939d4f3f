"""The page of the web example in a real browser: it streams, can be stopped, and trusts nobody."""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chrome import Chrome, Page
from tests.examples.ground import Ground
from tests.examples.web_host import Visitor, hosting
from tests.export_page import ATTACKS
from tests.process.harness import WAIT_SECONDS

STATUS = "document.getElementById('status').textContent"
STORY = "document.getElementById('story').innerText"
QUESTIONS = """
def extension(api):
    @api.command("questions")
    async def questions(args, ctx):
        sure = await ctx.ui.confirm("Sure?", "Really.")
        colour = await ctx.ui.select("Which?", ["red", "green"])
        word = await ctx.ui.input("Why?")
        ctx.ui.notify(f"{sure} {colour} {word}")
"""
REPAIR: list[dict[str, Any]] = [
    {
        "content": [
            {"thinking": "Run it first, then look at the function."},
            {"text": "Let me run the tests."},
            {"tool": "bash", "args": {"command": "python3 -m unittest -q 2>&1 | tail -n 1"}},
        ]
    },
    {"content": [{"text": "One fails."}, {"tool": "read", "args": {"path": "mean.py"}}]},
    {
        "content": [
            {"text": "The divisor is off by one: `mean` divides by **len(xs) - 1**."},
            {
                "tool": "edit",
                "args": {
                    "path": "mean.py",
                    "edits": [{"oldText": "(len(xs) - 1)", "newText": "len(xs)"}],
                },
            },
        ]
    },
    {"content": [{"tool": "bash", "args": {"command": "python3 -m unittest -q 2>&1 | tail -n 1"}}]},
    {
        "text": "Fixed, and the tests pass.\n\n- `mean([1, 2, 3])` is **2** now.\n"
        "- An empty list still raises `ZeroDivisionError`; tell me if you want",
        "hang": True,
    },
]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.fixture
def shown(page: Page, ground: Ground) -> Iterator[Page]:
    """The page, and in the end no complaint of the browser and no request to anybody else."""
    yield page
    assert page.errors() == []
    assert [url for url in page.requests() if not url.startswith("http://127.0.0.1:")] == []


def _open(page: Page, visitor: Visitor) -> None:
    page.open(visitor.address)
    page.wait(f"{STATUS} === 'ready'")


def _say(page: Page, text: str) -> None:
    page.click("#text")
    page.type(text)
    page.key("Enter")


def _settled(page: Page, text: str) -> None:
    page.wait(f"{STATUS} === 'ready' && {STORY}.includes({text!r})")


def test_an_answer_grows_and_is_stopped_by_the_button(shown: Page, ground: Ground) -> None:
    ground.script({"text": "Let me think", "hang": True})
    with hosting(ground) as (visitor, _):
        _open(shown, visitor)
        _say(shown, "Go")
        shown.wait(f"{STORY}.includes('Let me think')")
        assert shown.js(STATUS) == "working"
        assert shown.js("document.querySelector('.answer').classList.contains('growing')")
        shown.click("#stop")
        _settled(shown, "Stopped.")
        assert shown.js("document.getElementById('stop').hidden")


def test_tools_are_shown_with_what_they_did(shown: Page, ground: Ground) -> None:
    calls = [{"tool": "bash", "args": {"command": "echo it works"}}, {"tool": "read", "args": {}}]
    ground.script({"content": calls}, {"text": "Done."})
    with hosting(ground) as (visitor, _):
        _open(shown, visitor)
        _say(shown, "Go")
        _settled(shown, "Done.")
        texts = shown.js("[...document.querySelectorAll('.tool')].map((card) => card.innerText)")
    assert texts[0].split()[:5] == ["✓", "bash", "echo", "it", "works"]
    assert texts[1].startswith("✗")


def test_what_is_said_is_shown_and_never_run(shown: Page, ground: Ground) -> None:
    hostile = "\n".join(ATTACKS)
    (ground.work / "hostile.txt").write_text(hostile, errors="replace")
    call = {"tool": "read", "args": {"path": "hostile.txt"}}
    ground.script(
        {
            "content": [
                {"thinking": ATTACKS[0]},
                {"text": hostile.encode(errors="replace").decode()},
            ]
        },
        {"content": [{"tool": ATTACKS[4], "args": {ATTACKS[0]: ATTACKS[1]}}, call]},
        {"text": "Done."},
    )
    with hosting(ground) as (visitor, _):
        _open(shown, visitor)
        _say(shown, ATTACKS[0])
        _settled(shown, "window.pwned=1")
        _say(shown, "And now?")
        _settled(shown, "Done.")
        kinds = shown.js("[...document.querySelectorAll('#story *')].map((each) => each.tagName)")
        assert shown.js("window.pwned") is None
    usual = {"ARTICLE", "P", "PRE", "CODE", "UL", "LI", "B", "H3", "DETAILS", "SUMMARY", "SPAN"}
    assert set(kinds) <= usual


def test_the_policy_forbids_what_a_mistake_would_allow(page: Page, ground: Ground) -> None:
    tries = """(() => {
        const refused = [];
        for (const attempt of [
            () => (document.body.innerHTML = '<img src=x onerror=window.pwned=1>'),
            () => eval('window.pwned = 1'),
            () => (document.createElement('script').text = 'window.pwned = 1'),
            () => document.body.setAttribute('onclick', 'window.pwned = 1'),
        ]) try { attempt(); } catch (error) { refused.push(error.name); }
        return refused.length;
    })()"""
    with hosting(ground) as (visitor, _):
        _open(page, visitor)
        # Run by the page itself: what a debugger evaluates may do more.
        assert page.js(f"new Promise((done) => setTimeout(() => done({tries})))") == 4
        assert page.js("window.pwned") is None


def test_a_second_page_shows_the_same_and_hears_the_same(
    shown: Page, chrome: Chrome, ground: Ground
) -> None:
    ground.script({"text": "Hello."}, {"text": "Again."})
    with hosting(ground) as (visitor, _):
        _open(shown, visitor)
        _say(shown, "Hi")
        _settled(shown, "Hello.")
        second = chrome.page()
        _open(second, visitor)
        second.wait(f"{STORY} === {json.dumps(shown.js(STORY))}")
        _say(second, "And?")
        _settled(shown, "Again.")
        second.close()


def test_questions_of_extensions_are_asked_one_after_another(shown: Page, ground: Ground) -> None:
    (ground.work / "questions.py").write_text(QUESTIONS)
    question = "document.getElementById('question').innerText"
    with hosting(ground, "-e", "questions.py") as (visitor, _):
        _open(shown, visitor)
        _say(shown, "/questions")
        shown.wait(f"{question} === 'Sure?'")
        shown.click("#yes")
        shown.wait(f"{question} === 'Which?'")
        shown.click("#choices button:nth-child(2)")
        shown.wait(f"{question} === 'Why?'")
        shown.click("#input")
        shown.type("because")
        shown.click("#yes")
        shown.wait(f"{STORY}.includes('True green because')")
        assert not shown.js("document.getElementById('dialog').open")


def test_a_new_conversation_empties_the_page(shown: Page, ground: Ground) -> None:
    with hosting(ground) as (visitor, _):
        _open(shown, visitor)
        _say(shown, "hello")
        _settled(shown, "offline demo model")
        shown.click("#new")
        shown.wait(f"{STORY}.startsWith('Ask something')")


def test_light_and_dark_follow_the_system_and_the_button(shown: Page, ground: Ground) -> None:
    ground_colour = "getComputedStyle(document.body).backgroundColor"
    with hosting(ground) as (visitor, _):
        shown.prefer(color_scheme="dark")
        _open(shown, visitor)
        dark = shown.js(ground_colour)
        shown.click("#theme")
        light = shown.js(ground_colour)
        shown.prefer(color_scheme="light")
        shown.click("#theme")
        assert shown.js(ground_colour) == dark
    assert dark != light


def test_the_end_of_the_host_is_told(page: Page, ground: Ground) -> None:
    with hosting(ground) as (visitor, process):
        _open(page, visitor)
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 0  # a second signal would cut its farewell short
        page.wait(f"{STATUS} === 'not connected'")
        assert "has ended" in page.js(STORY)
    # The page may have tried to connect again, which the browser reports.
    assert set(page.errors()) <= {"Failed to load resource: net::ERR_CONNECTION_REFUSED"}


def test_the_page_looks_as_the_guide_shows_it(shown: Page, chrome: Chrome, ground: Ground) -> None:
    """A picture in light, while it works, and one in dark, when it was stopped.

    With `DOCS_PICTURES` they are put side by side there as `example-web.png`.
    """
    (ground.work / "mean.py").write_text("def mean(xs):\n    return sum(xs) / (len(xs) - 1)\n")
    test = "import unittest, mean\n\n\nclass Test(unittest.TestCase):\n    def test_mean(self):\n"
    (ground.work / "test_mean.py").write_text(test + "        assert mean.mean([1, 2, 3]) == 2\n")
    ground.script(*REPAIR)
    with hosting(ground, "--thinking", "low") as (visitor, _):
        shown.resize(720, 1060)
        shown.prefer(color_scheme="light", motion="reduce")
        _open(shown, visitor)
        _say(shown, "The test of mean.py fails. Please repair it.")
        shown.wait(f"{STORY}.includes('if you want')")
        shown.settle()
        light = shown.shot()
        shown.click("#stop")
        _settled(shown, "Stopped.")
        dark_page = chrome.page(720, 1060)
        dark_page.prefer(color_scheme="dark", motion="reduce")
        _open(dark_page, visitor)
        dark_page.wait(f"{STORY}.includes('Stopped.')")
        dark_page.settle()
        dark = dark_page.shot()
        dark_page.close()
    assert "FAILED (failures=1)" in str(ground.said)
    _side_by_side(light, dark)


def _side_by_side(light: bytes, dark: bytes) -> None:
    from PIL import Image, ImageStat

    pictures = [Image.open(io.BytesIO(each)).convert("RGB") for each in (light, dark)]
    first, second = (ImageStat.Stat(each.convert("L")).mean[0] for each in pictures)
    assert first > 200
    assert second < 60
    folder = os.environ.get("DOCS_PICTURES")
    if folder:
        width, height = pictures[0].size
        both = Image.new("RGB", (2 * width, height))
        for at, picture in enumerate(pictures):
            both.paste(picture, (at * width, 0))
        both.quantize(256).save(Path(folder) / "example-web.png", optimize=True)
