"""Themes of the terminal: roles, theme files of pi, and terminals with fewer colours."""

import json
from pathlib import Path

import pytest

from ludolf.base import CommandError
from ludolf.tui.colour import colour_depth, colour_sequence, parse_colour
from ludolf.tui.theme import built_in_theme, is_light, load_theme, theme_names


@pytest.mark.parametrize(
    ("environment", "depth"),
    [
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "vscode"}, "256"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "true"),
        ({"TERM": "xterm-kitty"}, "true"),
        ({"TERM": "xterm-kitty", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm", "NO_COLOR": ""}, "16"),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, "none"),
        ({}, "none"),
    ],
)
def test_the_environment_says_how_many_colours_there_are(
    environment: dict[str, str], depth: str
) -> None:
    assert colour_depth(environment) == depth


def test_a_colour_becomes_the_nearest_one_that_the_terminal_has() -> None:
    red = parse_colour("#ff0000")
    assert colour_sequence(red, "true") == "\x1b[38;2;255;0;0m"
    assert colour_sequence(red, "256") == "\x1b[38;5;196m"
    assert colour_sequence(red, "16") == "\x1b[91m"
    assert colour_sequence(red, "none") == ""
    assert colour_sequence(parse_colour("#808080"), "256") == "\x1b[38;5;244m"
    assert colour_sequence(parse_colour(39), "true", background=True) == "\x1b[48;5;39m"
    assert colour_sequence(parse_colour(3), "16", background=True) == "\x1b[43m"
    assert colour_sequence(parse_colour(""), "true") == ""


def test_painted_text_ends_in_the_default_colour_and_without_colours_it_is_plain() -> None:
    assert built_in_theme("16").paint("error", "no") == "\x1b[91mno\x1b[39m"
    assert built_in_theme("true").paint("selectedBg", "x").endswith("x\x1b[49m")
    assert built_in_theme("none").paint("error", "no") == "no"
    assert built_in_theme("true").paint("unknown", "x") == "x"


def test_a_theme_file_of_pi_is_read_with_its_variables(tmp_path: Path) -> None:
    theme = {
        "name": "mine",
        "vars": {"primary": "#010203", "second": "primary", "grey": 242},
        "colors": {"accent": "second", "muted": "grey", "text": "", "thinkingXhigh": "#fff"},
    }
    (tmp_path / "file.json").write_text(json.dumps(theme))
    for name in ("mine", "file", str(tmp_path / "file.json"), "light/mine"):
        loaded = load_theme(name, [tmp_path / "missing", tmp_path], "true", links=True)
        assert loaded.style("accent") == "\x1b[38;2;1;2;3m"
        assert loaded.style("muted") == "\x1b[38;5;242m"
        assert loaded.style("text") == ""
        assert loaded.style("thinkingMax") == "\x1b[38;2;255;255;255m"
        assert loaded.style("error") == built_in_theme("true").style("error")
        assert loaded.links
    assert theme_names([tmp_path]) == ["auto", "dark", "light", "file"]
    named = load_theme("file", [tmp_path / "missing", tmp_path / "file.json"], "true")
    assert named.style("accent") == "\x1b[38;2;1;2;3m"


def test_auto_follows_the_background() -> None:
    assert load_theme("auto", [], "true").name == "dark"
    assert load_theme("auto", [], "true", light=True).name == "light"
    assert load_theme("light/dark", [], "true", light=True).name == "light"
    assert is_light("\x1b]11;rgb:ffff/fafa/f0f0\x07") is True
    assert is_light("rgb:1e/1e/2e") is False
    assert is_light("nothing") is None


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        ('{"name": "bad"}', "needs an object `colors`"),
        ('{"colors": {"accent": "#12345g"}}', "has a value that is"),
        ('{"colors": {"accent": [1]}}', "has a value that is not a colour"),
        ('{"colors": {"accent": "a"}, "vars": {"a": "b", "b": "a"}}', "not a colour"),
    ],
)
def test_a_theme_that_is_not_valid_is_refused_with_its_path(
    tmp_path: Path, content: str, error: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(CommandError, match=error) as raised:
        load_theme("bad", [tmp_path], "true")
    assert str(path) in str(raised.value)


def test_an_unknown_theme_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"Unknown theme: x\. Known themes: auto, dark, light"):
        load_theme("x", [tmp_path], "true")
    with pytest.raises(CommandError, match="Cannot read the theme"):
        load_theme(str(tmp_path / "no.json"), [], "true")
