"""The guide tells the truth: its examples run, and its reference is current."""

import re
from pathlib import Path
from typing import get_type_hints, is_typeddict

import pytest

from ludolf import ext
from ludolf.extensions.hooks import HOOKS
from scripts.make_extension_reference import PAGE, WHEN, headings, updated
from tests.process.extending import EXAMPLES, dialog, lay, notes, reply, told
from tests.process.harness import Lab, messages, only, text_of
from tests.process.script import answer, bash, call

GUIDE = PAGE.read_text()
FILES = dict(re.findall(r"```python file=(\S+)\n(.*?)```", GUIDE, re.DOTALL))


def _lay(lab: Lab, name: str) -> None:
    lay(lab, FILES[name], name)


def _results(lab: Lab) -> list[str]:
    return [text_of(one) for one in messages(lab.entries) if one["role"] == "toolResult"]


# ---------------------------------------------------------------- the reference


def test_the_reference_is_current() -> None:
    assert updated(GUIDE) == GUIDE, "run scripts/make_extension_reference.py"


def test_every_event_stands_in_the_reference() -> None:
    listed = [name for events in WHEN.values() for name in events]
    assert sorted(listed) == sorted(HOOKS)
    assert headings(GUIDE) == listed


@pytest.mark.parametrize("name", [name for name, hook in HOOKS.items() if hook.keys])
def test_the_types_of_answers_are_there_for_authors(name: str) -> None:
    keys = get_type_hints(HOOKS[name].answer).items()
    public = [get_type_hints(one).items() for one in vars(ext).values() if is_typeddict(one)]
    assert any(keys <= known for known in public)


def test_every_shipped_example_stands_in_the_guide() -> None:
    shipped = {path.name for path in EXAMPLES.glob("*.py")} - {"__init__.py"}
    assert shipped == set(re.findall(r"^\| `(\w+\.py)` \|", GUIDE, re.MULTILINE))


def test_links_within_the_guide_lead_somewhere() -> None:
    titles = re.findall(r"^#+ (.+)$", GUIDE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([\w-]+)\)", GUIDE)) <= anchors


def test_what_the_guide_says_of_ludolf_ext_is_there() -> None:
    for name in re.findall(r"^from ludolf\.ext import (.+)$", GUIDE, re.MULTILINE):
        assert set(name.split(", ")) <= set(ext.__all__)


# ---------------------------------------------------------------- the examples


def test_every_example_has_a_test() -> None:
    text = Path(__file__).read_text()
    assert [name for name in FILES if f'"{name}"' not in text] == []


def test_the_first_tool_works_after_five_minutes(lab: Lab) -> None:
    _lay(lab, "words.py")
    (lab.work / "README.md").write_text("one two three")
    lab.server.add(answer(call("count_words", {"path": "README.md"})), answer("Three."))
    done = lab.run("-p", "How many words are in README.md?")
    assert (done.code, done.stdout, done.stderr) == (0, b"Three.\n", "")
    assert _results(lab) == ["3 words"]
    tool = next(t for t in lab.server.requests[0].body["tools"] if t["name"] == "count_words")
    assert tool["description"] == "Count the words in a text file."
    assert tool["input_schema"]["properties"]["path"]["description"] == "A text file"


async def test_the_command_says_hello(lab: Lab) -> None:
    _lay(lab, "hello.py")
    async with lab.client() as client:
        await client.ask("prompt", message="/hello Ada")
        await client.send("prompt", id="p", message="/hello")
        await reply(client, await dialog(client, "input"), value="Grace")
        await client.reply_to("p")
    assert [text.split(".")[0] for text in notes(lab)] == ["Hello, Ada", "Hello, Grace"]


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_gate_asks(lab: Lab, allowed: bool) -> None:
    _lay(lab, "gate.py")
    lab.server.add(answer(bash("echo git push")), answer("Done."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await reply(client, await dialog(client, "confirm"), confirmed=allowed)
        await client.wait_for("agent_settled")
    wanted = "git push\n" if allowed else "The user does not want to push."
    assert _results(lab) == [wanted]


async def test_the_tool_shows_progress_and_fails_in_words(lab: Lab) -> None:
    _lay(lab, "progress.py")
    late = call("wait_for_file", {"path": "late.txt"}, "a")
    never = call("wait_for_file", {"path": "never.txt", "seconds": 0.1}, "b")
    lab.server.add(answer(late, never), answer("Done."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        update = await client.wait_for("tool_execution_update")
        (lab.work / "late.txt").touch()
        await client.wait_for("agent_settled")
    assert text_of(update["partialResult"]) == "waiting for late.txt"
    assert _results(lab) == ["late.txt is there", "never.txt did not come"]
    assert [one["isError"] for one in only(told(lab), "tool_execution_end")] == [False, True]


async def test_state_outlives_a_reload(lab: Lab) -> None:
    _lay(lab, "counter.py")
    async with lab.client() as client:
        await client.ask("prompt", message="/tally")
        await client.ask("reload")
        await client.ask("prompt", message="/tally")
    texts = [one["statusText"] for one in told(lab) if one.get("method") == "setStatus"]
    assert texts == ["1", "2"]


async def test_prompts_are_changed_and_sent(lab: Lab) -> None:
    _lay(lab, "context.py")
    lab.server.add(answer("It does."), answer("Fixed."))
    async with lab.client() as client:
        await client.prompt_and_collect("?git rebase")
        await client.ask("prompt", message="/fix")
        await client.wait_for("agent_settled")
    first, second = lab.server.requests
    assert "Today is 2" in str(first.body["system"])
    assert "Explain briefly: git rebase" in str(first.body["messages"])
    assert "fix what fails" in str(second.body["messages"])


def test_the_parrot_answers(lab: Lab) -> None:
    _lay(lab, "parrot.py")
    done = lab.run("-p", "pieces of eight")
    assert (done.code, done.stdout) == (0, b"pieces of eight \n")


def test_the_typed_gate_blocks(lab: Lab) -> None:
    _lay(lab, "typed.py")
    lab.server.add(answer(bash("sudo true")), answer("Done."))
    assert lab.run("-p", "Go").code == 0
    assert _results(lab) == ["sudo is not available here."]
