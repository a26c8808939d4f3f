"""Prompts of MCP servers: names that can be typed, and arguments by position."""

from typing import Any

import pytest

from ludolf.base import CommandError
from ludolf.engine.features.mcp.prompts import ServerPrompt, prompt_arguments, read_prompts


def _prompt(*arguments: tuple[str, bool]) -> ServerPrompt:
    raw = [{"name": name, "required": needed} for name, needed in arguments]
    (prompt,) = read_prompts("lab", [{"name": "greet", "arguments": raw}])
    return prompt


WHO, MOOD = ("who", True), ("mood", False)


@pytest.mark.parametrize(
    ("arguments", "text", "given"),
    [
        ((WHO,), "Ada Lovelace", {"who": "Ada Lovelace"}),
        ((WHO,), '"Ada Lovelace"', {"who": "Ada Lovelace"}),
        ((WHO,), '"Ada" and "Bob"', {"who": '"Ada" and "Bob"'}),
        ((WHO, MOOD), "Ada", {"who": "Ada"}),
        ((WHO, MOOD), "Ada  very glad\nindeed", {"who": "Ada", "mood": "very glad\nindeed"}),
        ((WHO, MOOD), "'Ada L' glad", {"who": "Ada L", "mood": "glad"}),
        ((WHO, MOOD), "don't 'shout", {"who": "don't", "mood": "'shout"}),
        ((WHO, MOOD), "'Ada'L glad", {"who": "'Ada'L", "mood": "glad"}),
        ((MOOD,), "", {}),
        ((), "more", {}),
    ],
)
def test_arguments_are_taken_by_position_and_the_last_takes_the_rest(
    arguments: Any, text: str, given: Any
) -> None:
    assert prompt_arguments(_prompt(*arguments), text) == given


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(CommandError) as error:
        prompt_arguments(_prompt(WHO, MOOD), " ")
    assert str(error.value) == "Missing argument: who. Usage: /mcp:lab:greet who [mood]"


def test_every_prompt_gets_a_word_that_can_be_typed() -> None:
    raw = [
        None,
        {"name": 7},
        {"name": "x" * 10_000},
        {"name": "plain:one", "title": "T\u202eitle"},
        {"name": "two words"},
        {"name": "two\twords", "arguments": [None, {"name": 1}, {"name": "a"}]},
    ]
    prompts = read_prompts("lab", raw)
    assert [(one.name, one.command) for one in prompts] == [
        ("plain:one", "mcp:lab:plain:one"),
        ("two words", "mcp:lab:two_words"),
        ("two\twords", "mcp:lab:two_words_2"),
    ]
    assert (prompts[0].description, prompts[2].arguments) == ("Title", (("a", False),))
