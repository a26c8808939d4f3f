"""The offline model: every documented request drives the right tools and tells their results."""

import asyncio
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.builtin.models import offline_model
from ludolf.ai.builtin.offline import MOST_STEPS, Offline, make, make_plan
from ludolf.ai.builtin.offline_requests import TABLE, StepCall, resolve
from ludolf.ai.draft import BlockDelta, Draft, StreamEvent
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import (
    AssistantMessage,
    CustomMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.registry import Providers
from ludolf.ai.stream import respond

MANUAL = Path(__file__).parents[2] / "docs" / "offline-model.md"
ALL = ("read", "bash", "edit", "write", "grep", "find", "ls")
Fake = Callable[[str, dict[str, Any]], str]
Made = tuple[str, dict[str, Any]]


class Refused(Exception):
    """A fake tool fails with this text."""


class Talk(msgspec.Struct):
    """A run of the in-test loop: the calls of each turn, the last answer, all messages."""

    turns: list[list[Made]]
    answer: str
    messages: tuple[Message, ...]

    @property
    def calls(self) -> list[Made]:
        return [call for turn in self.turns for call in turn]


def request(messages: tuple[Message, ...], **changes: Any) -> Request:
    tools = changes.pop("tools", ALL)
    plain = Request(
        provider=Offline(pause=0),
        model=offline_model(),
        access=Access(),
        system="",
        messages=messages,
        tools=tuple(ToolSpec(name, "", {}) for name in tools),
        cwd="/home/ann/project",
    )
    return structs.replace(plain, **changes)


async def answer(asked: Request) -> AssistantMessage:
    async def take(events: Iterable[StreamEvent]) -> None:
        list(events)

    return (await respond(asked, Draft(asked.model), take)).message


def user(text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),), timestamp=1)


def result_of(call: ToolCall, tool: Fake) -> ToolResultMessage:
    try:
        text, failed = tool(call.name, call.arguments), False
    except Refused as error:
        text, failed = str(error), True
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(text=text),),
        is_error=failed,
        timestamp=2,
    )


def fine(name: str, args: dict[str, Any]) -> str:
    """What each tool would say in a small project."""
    texts = {
        "ls": "src/\nREADME.md\npyproject.toml",
        "find": "src/\nsrc/a.py\nsrc/b.py\nREADME.md",
        "grep": "a.py:3: # TODO later",
        "write": f"Successfully wrote to {args.get('path')}",
        "edit": f"Successfully replaced 1 block(s) in {args.get('path')}.",
        "bash": "total 0",
    }
    return texts.get(name) or f"# Contents of {args['path']}\n"


def talk(text: str, tool: Fake = fine, **changes: Any) -> Talk:
    messages: tuple[Message, ...] = (user(text),)
    turns: list[list[Made]] = []

    async def run() -> Talk:
        nonlocal messages
        for _ in range(30):
            message = await answer(request(messages, **changes))
            calls = message.tool_calls
            assert message.stop_reason == ("toolUse" if calls else "stop")
            messages = (*messages, message, *(result_of(call, tool) for call in calls))
            if not calls:
                return Talk(turns, text_of(message.content), messages)
            turns.append([(call.name, call.arguments) for call in calls])
        raise AssertionError("the offline model does not come to an end")

    return asyncio.run(run())


# ---------------------------------------------------------------- the documented table

LS_HERE: Made = ("ls", {"path": "."})
README: Made = ("read", {"path": "README.md"})
LOOK_AROUND: list[Made] = [LS_HERE, ("find", {"pattern": "*", "path": ".", "limit": 300})]
PAPERS: list[Made] = [
    ("read", {"path": "README.md", "offset": 1, "limit": 40}),
    ("read", {"path": "pyproject.toml", "offset": 1, "limit": 40}),
]
GREP_ARGS = {"pattern": "TODO", "path": "src", "literal": True, "limit": 100}
EDIT_ARGS = {"path": "notes.txt", "edits": [{"oldText": "old", "newText": "new"}]}
EXAMPLES: dict[str, tuple[list[list[Made]], str]] = {
    "hello": ([], "offline demo model of Ludolf"),
    "thank you": ([], "You are welcome."),
    "what can you do?": ([], "I understand these requests"),
    "how do I connect a real model?": ([], "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI"),
    "summarise this project": ([LOOK_AROUND, PAPERS], "Files by ending: 2 .py, 1 .md."),
    "what is in this folder?": ([[LS_HERE]], "In this folder I see 1 folder and 2 files"),
    "show me src/x.py lines 10-20": (
        [[("read", {"path": "src/x.py", "offset": 10, "limit": 11})]],
        "Here is src/x.py from line 10 to 20:\n```\n# Contents of src/x.py\n```",
    ),
    "find files named *.py in src": (
        [[("find", {"pattern": "*.py", "path": "src", "limit": 300})]],
        "I found 4 files named *.py in src:",
    ),
    "search for TODO in src": ([[("grep", GREP_ARGS)]], 'I found 1 line with "TODO" in src:'),
    "list src": ([[("ls", {"path": "src"})]], "In src I see 1 folder and 2 files:"),
    "read README.md": ([[README]], "Here is README.md:\n```\n# Contents of README.md\n```"),
    "write hello.txt with Hello": (
        [[("write", {"path": "hello.txt", "content": "Hello"})]],
        "I wrote 5 characters to hello.txt.",
    ),
    'replace "old" with "new" in notes.txt': (
        [[("edit", EDIT_ARGS)]],
        'I replaced "old" with "new" in notes.txt.',
    ),
    "run the tests": ([], "Name the command that runs your tests"),
    "run `ls -la`": (
        [[("bash", {"command": "ls -la"})]],
        "The command `ls -la` ran and printed:\n```\ntotal 0\n```",
    ),
    "think about how to name this function": ([], "asked to think about how to name this"),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_documented_request_makes_its_calls_and_tells_the_results(example: str) -> None:
    turns, words = EXAMPLES[example]
    made = talk(example)
    assert made.turns == turns
    assert words in made.answer


def test_table_manual_and_tests_name_the_same_examples() -> None:
    rows = re.findall(
        r"^\| (\w+) \| `{1,2}(.+?) ?`{1,2} \| .+ \|$", MANUAL.read_text("utf-8"), re.M
    )
    assert rows == [(row.name, row.example) for row in TABLE]
    assert [row.example for row in TABLE] == list(EXAMPLES)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("Please could you read README.md for me?", [README]),
        (
            "please could you show me the first 20 lines of a.txt",
            [("read", {"path": "a.txt", "offset": 1, "limit": 20})],
        ),
        ("read line 5 of a.txt", [("read", {"path": "a.txt", "offset": 5, "limit": 1})]),
        ("ls src", [("ls", {"path": "src"})]),
        ("what is in src?", [("ls", {"path": "src"})]),
        ("what is in README.md?", [README]),
        ("open src/", [("ls", {"path": "src/"})]),
        ("find *.md", [("find", {"pattern": "*.md", "path": ".", "limit": 300})]),
        ("list all python files", [("find", {"pattern": "*.py", "path": ".", "limit": 300})]),
        ("search src for TODO", [("grep", GREP_ARGS)]),
        ("where is main defined?", [("grep", {**GREP_ARGS, "pattern": "main", "path": "."})]),
        ('write "Hello" to hello.txt', [("write", {"path": "hello.txt", "content": "Hello"})]),
        ("write a.txt with Ends here.", [("write", {"path": "a.txt", "content": "Ends here."})]),
        ("create an empty file named y", [("write", {"path": "y", "content": ""})]),
        (
            "write x.py\n```python\nprint(1)\n\n# then read me\n```",
            [("write", {"path": "x.py", "content": "print(1)\n\n# then read me\n"})],
        ),
        ("write a.txt: \ue000 icon", [("write", {"path": "a.txt", "content": "\ue000 icon"})]),
        ("in notes.txt replace old with new", [("edit", EDIT_ARGS)]),
        ("change old to new in notes.txt.", [("edit", EDIT_ARGS)]),
        ("execute pytest -q", [("bash", {"command": "pytest -q"})]),
        ("can you run pytest?", [("bash", {"command": "pytest"})]),
        ("run `make` in src", [("bash", {"command": "cd src && make"})]),
        ("git status", [("bash", {"command": "git status"})]),
        ("read README.md\n\n[Image: original 1x1, displayed at 1x1.]", [README]),
        ('<file name="/x/a.txt">\nlist src\n</file>\nread README.md', [README]),
    ],
)
def test_other_wordings_are_understood_too(text: str, calls: list[Made]) -> None:
    assert talk(text).turns == [calls]


@pytest.mark.parametrize(
    "text",
    [
        "what is the meaning of life?",
        "write me a poem about the sea",
        "make a list with apples",
        "fix the bug in src/x.py",
        "show me how to do it",
        "read it",
        "execute the plan",
        "",
        "x" * 300_000,
        "“" * 40_000,
        "read a, " * 500,
    ],
)
def test_anything_else_gets_an_honest_answer_and_the_way_to_a_model(text: str) -> None:
    made = talk(text)
    assert made.turns == []
    assert "did not find yours" in made.answer
    for needed in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "--model"):
        assert needed in made.answer
    assert "models.json" in made.answer


# ---------------------------------------------------------------- several things at once


def test_two_files_are_read_in_one_turn() -> None:
    made = talk("read a.txt and b.txt")
    assert made.turns == [[("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})]]
    assert made.answer.index("Here is a.txt") < made.answer.index("Here is b.txt")


def test_different_looks_joined_by_and_share_a_turn() -> None:
    made = talk("read a.txt and list src")
    assert made.turns == [[("read", {"path": "a.txt"}), ("ls", {"path": "src"})]]
    assert "Here is a.txt" in made.answer
    assert "In src I see" in made.answer


def test_steps_joined_by_then_are_done_one_after_another() -> None:
    made = talk('write a.txt with "now and then" then read a.txt, and then run `cat a.txt`')
    assert made.turns == [
        [("write", {"path": "a.txt", "content": "now and then"})],
        [("read", {"path": "a.txt"})],
        [("bash", {"command": "cat a.txt"})],
    ]
    assert "I wrote 12 characters to a.txt." in made.answer
    assert "`cat a.txt` ran and printed" in made.answer


def test_a_list_of_lines_is_a_list_of_steps() -> None:
    made = talk("1. read a.txt\n2. list src\n3. run `pwd`")
    assert [name for name, _ in made.calls] == ["read", "ls", "bash"]
    assert len(made.turns) == 3


def test_each_turn_says_what_it_is_about_to_do() -> None:
    said = [
        text_of(message.content)
        for message in talk("summarise this project").messages
        if isinstance(message, AssistantMessage) and message.tool_calls
    ]
    assert said == ["I will look at this project.", "I will read README.md and pyproject.toml."]


def test_a_text_to_be_written_is_not_cut_at_and() -> None:
    made = talk("write a.txt with Wash and list things")
    assert made.calls == [("write", {"path": "a.txt", "content": "Wash and list things"})]


def test_more_steps_than_a_plan_holds_are_cut_and_told() -> None:
    made = talk(" then ".join(["run `true`"] * 30))
    assert len(made.turns) == MOST_STEPS
    assert "at most 8 steps" in made.answer


# ---------------------------------------------------------------- trouble


def missing(name: str, args: dict[str, Any]) -> str:
    if args.get("path") == "gone.txt":
        raise Refused("ENOENT: no such file: gone.txt")
    return fine(name, args)


def test_a_failed_tool_is_reported_plainly_and_ends_the_plan() -> None:
    made = talk("read gone.txt then list src then run `pwd`", missing)
    assert made.calls == [("read", {"path": "gone.txt"})]
    assert "I could not read gone.txt. The tool said:\n```\nENOENT: no such file" in made.answer
    assert made.answer.endswith("I stopped there. Not done: list src; run `pwd`.")


def test_one_failure_in_a_turn_does_not_hide_the_other_results() -> None:
    made = talk("read gone.txt and a.txt", missing)
    assert "I could not read gone.txt" in made.answer
    assert "Here is a.txt" in made.answer


def test_a_failed_command_shows_its_output() -> None:
    def fails(name: str, args: dict[str, Any]) -> str:
        raise Refused("boom\n\nCommand exited with code 2")

    made = talk("run `make`", fails)
    assert made.answer == (
        "The command `make` failed:\n```\nboom\n\nCommand exited with code 2\n```"
    )


def test_an_empty_listing_and_no_hits_are_said_in_words() -> None:
    def nothing(name: str, args: dict[str, Any]) -> str:
        return {"ls": "(empty directory)", "grep": "No matches found"}.get(name, "(no output)")

    assert talk("list src", nothing).answer == "There is nothing in src."
    assert talk("search for x in src", nothing).answer == 'I found no line with "x" in src.'
    assert talk("run `true`", nothing).answer == "The command `true` ran and printed nothing."


def test_long_results_are_shortened_and_fences_cannot_break_out() -> None:
    made = talk("read a.txt", lambda name, args: "```\n" + "line\n" * 500)
    assert made.answer.startswith("Here is a.txt:\n````\n```\nline\n")
    assert made.answer.endswith("\n````\n(shortened)")
    assert len(made.answer) < 500


def test_without_a_suitable_tool_it_says_so() -> None:
    made = talk("write a.txt with x then list src", tools=("read",))
    assert made.turns == []
    assert made.answer == (
        "I cannot write a.txt: no tool for it is active (I would need write).\n\n"
        "I stopped there. Not done: list src."
    )
    assert talk("list src", tools=()).turns == []


def test_missing_looking_tools_are_replaced_by_quoted_shell_commands() -> None:
    made = talk('search for "it\'s; rm -rf /" in src', tools=("bash",))
    assert made.calls == [
        (
            "bash",
            {
                "command": "grep -rnIF --exclude-dir=.git -e 'it'\"'\"'s; rm -rf /' src"
                " | head -n 100"
            },
        )
    ]


def run_shell(call: StepCall, folder: Path) -> list[str]:
    resolved = resolve(call, frozenset(("bash",)))
    assert resolved is not None
    done = subprocess.run(
        ["bash", "-c", resolved[1]["command"]], cwd=folder, capture_output=True, check=True
    )
    return done.stdout.decode().splitlines()


def test_the_shell_commands_work_on_real_files_with_odd_names(tmp_path: Path) -> None:
    folder = tmp_path / "a b; $x"
    folder.mkdir()
    (folder / "-n.txt").write_text("one\ntwo -e\nthree\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "hidden.txt").write_text("two -e\n")
    assert run_shell(StepCall("ls", {"path": folder.name}), tmp_path) == ["-n.txt", ".git/"]
    assert run_shell(StepCall("read", {"path": "-n.txt"}), folder) == ["one", "two -e", "three"]
    part = StepCall("read", {"path": "-n.txt", "offset": 2, "limit": 2})
    assert run_shell(part, folder) == ["two -e", "three"]
    hits = run_shell(StepCall("grep", {"pattern": "-e", "path": "."}), folder)
    assert hits == ["./-n.txt:2:two -e"]
    found = run_shell(StepCall("find", {"pattern": "*.txt", "path": folder.name}), tmp_path)
    assert found == [f"{folder.name}/-n.txt"]


# ---------------------------------------------------------------- as a model


def test_thinking_states_the_plan_unless_it_is_off() -> None:
    made = talk("read a.txt then list src", thinking="low")
    thoughts = [
        block.thinking
        for message in made.messages
        if isinstance(message, AssistantMessage)
        for block in message.content
        if isinstance(block, Thinking)
    ]
    assert len(thoughts) == 3
    assert 'I was asked: "read a.txt then list src".' in thoughts[0]
    assert "The plan: read a.txt; then list src; then report." in thoughts[0]
    assert thoughts[2] == "The results of turn 2 are here. Only the answer is left."
    quiet = asyncio.run(answer(request((user("hello"),))))
    assert not any(isinstance(block, Thinking) for block in quiet.content)


def test_to_think_about_something_shows_a_thinking_block_even_with_thinking_off() -> None:
    message = asyncio.run(answer(request((user("think about names"),))))
    assert isinstance(message.content[0], Thinking)


def test_an_answer_streams_in_many_small_deltas_and_the_same_one_each_time() -> None:
    async def listen() -> tuple[list[str], int]:
        asked = request((user("help"),))
        deltas: list[str] = []
        reads = 0

        async def take(events: Iterable[StreamEvent]) -> None:
            nonlocal reads
            told = [event.delta for event in events if isinstance(event, BlockDelta)]
            deltas.extend(told)
            reads += bool(told)

        await respond(asked, Draft(asked.model), take)
        return deltas, reads

    deltas, reads = asyncio.run(listen())
    assert reads > 20
    assert max(map(len, deltas)) < 40
    assert "".join(deltas) == talk("help").answer
    assert asyncio.run(listen()) == (deltas, reads)


def test_tokens_are_estimated_from_characters_and_cost_nothing() -> None:
    message = asyncio.run(answer(request((user("thanks"),), system="x" * 394, tools=())))
    assert (message.usage.input, message.usage.output) == (100, 4)
    assert (message.usage.total_tokens, message.usage.cost.total) == (104, 0)


def test_call_ids_differ_between_turns() -> None:
    made = talk("read a.txt and b.txt then read a.txt")
    ids = [
        call.id
        for message in made.messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    ]
    assert len(set(ids)) == len(ids) == 3


def test_images_are_taken_and_not_pretended_to_be_seen() -> None:
    picture = Image(data="AAAA", mime_type="image/png")
    message = UserMessage(content=(Text(text="hello"), picture), timestamp=1)
    said = text_of(asyncio.run(answer(request((message,)))).content)
    assert said.endswith("You sent 1 image; I cannot see pictures.")


def test_notes_of_extensions_after_the_request_do_not_replace_it() -> None:
    note = CustomMessage(custom_type="note", content="list src", display=False, timestamp=2)
    message = asyncio.run(answer(request((user("read a.txt"), note))))
    assert [call.arguments for call in message.tool_calls] == [{"path": "a.txt"}]


def test_a_conversation_without_a_request_is_answered() -> None:
    assert "no request" in text_of(asyncio.run(answer(request(()))).content)


def test_a_request_for_a_summary_lists_what_was_asked() -> None:
    text = "<conversation>\n[User]: read a.txt\n\n[Assistant]: ok\n\n[User]: list src\n"
    made = talk(f"{text}</conversation>\n\nSummarise.", tools=())
    assert "## Goal\nlist src" in made.answer
    assert "- read a.txt\n- list src" in made.answer


def test_a_host_that_hides_the_results_cannot_make_it_loop_for_ever() -> None:
    provider = Offline(pause=0)

    async def run() -> int:
        for turn in range(100):
            message = await answer(request((user("read a.txt"),), provider=provider))
            if not message.tool_calls:
                return turn
        raise AssertionError("still calling")

    assert asyncio.run(run()) == 20


def test_abort_is_cancellation() -> None:
    async def run() -> bool:
        begun = asyncio.Event()

        async def take(events: Iterable[StreamEvent]) -> None:
            if list(events):
                begun.set()

        asked = request((user("help"),))
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            task = group.create_task(respond(asked, Draft(asked.model), take))
            await begun.wait()
            task.cancel()
        return task.cancelled()

    assert asyncio.run(run())


def test_the_model_record_is_free_and_leads_to_the_provider() -> None:
    model = offline_model()
    assert (model.key, model.base_url) == ("ludolf/offline", "builtin:offline")
    assert (model.reasoning, model.input) == (True, ("text", "image"))
    assert (model.context_window, model.max_tokens) == (128_000, 8_192)
    provider = Providers(Transport({})).get(model.api)
    assert isinstance(provider, Offline)
    assert make(Transport({})).abort_text == "Request was aborted"


def test_a_plan_is_always_bounded() -> None:
    for text in ("run x then " * 300, "list src\n" * 400, "`a` and " * 500, "read b and " * 300):
        assert len(make_plan(text, "")) <= MOST_STEPS + 1
