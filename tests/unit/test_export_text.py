"""Untrusted text on its way to the page: escaping, hidden controls, terminal colours, images."""

import json

import pytest

from ludolf.page.text import (
    attribute,
    content,
    data_image,
    one_line,
    plain_lines,
    safe_data_url,
    script_json,
    terminal_html,
)


def test_markup_becomes_text() -> None:
    assert content("<b>&</b>") == "&lt;b&gt;&amp;&lt;/b&gt;"
    assert attribute("\"'<") == "&quot;&#39;&lt;"


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("a\u202eb\u2066c", "a[U+202E]b[U+2066]c"),
        ("a\x00\x1bb", "a\u2400\u241bb"),
        ("a\x7f\x9bb", "a\u2421\ufffdb"),
        ("a\ud83db", "a\ufffdb"),
        ("a\U000e0041b", "a[U+E0041]b"),
        ("עברית \u200e 🇩🇪 tab\tline\n", "עברית [U+200E] 🇩🇪 tab\tline\n"),
        ("<\u200b>", "&lt;[U+200B]&gt;"),
    ],
)
def test_what_hides_or_reorders_text_is_made_visible(hidden: str, shown: str) -> None:
    assert content(hidden) == shown


def test_json_in_the_page_cannot_end_its_script_and_stays_the_same() -> None:
    value = {"a": "</script><!--<script>&\u2028\ud83d"}
    text = script_json(value)
    assert not set(text) & set("<>&")
    assert json.loads(text) == value


def test_all_line_ends_count() -> None:
    assert plain_lines("a\r\nb\rc\nd") == ["a", "b", "c", "d"]


def test_a_list_shows_the_beginning_on_one_line() -> None:
    assert one_line(" a\n\n b\t c ") == "a b c"
    assert one_line("word " * 100, 12) == "word word w…"
    assert one_line(f"a{' ' * 40}b c", 12) == "a b c"


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("plain <b>\nnext", ["plain &lt;b&gt;", "next"]),
        ("\x1b[31mred\x1b[0m end", ['<span class="a-1">red</span> end']),
        (
            "\x1b[1;32mtwo\nlines\x1b[m",
            ['<span class="a-b a-2">two</span>', '<span class="a-b a-2">lines</span>'],
        ),
        ("\x1b[1mbold\x1b[22m not", ['<span class="a-b">bold</span> not']),
        ("\x1b[38;5;196mx", ['<span class="a-1">x</span>']),
        ("\x1b[38;2;0;200;0mx\x1b[39my", ['<span class="a-2">x</span>y']),
        ("\x1b[48;5;1;31mx", ['<span class="a-1">x</span>']),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        ("a\x1b[2Kb\x1b[10;5Hc\x1b(Bd", ["abcd"]),
        ("50%\r100%", ["50%", "100%"]),
    ],
)
def test_terminal_colours_become_classes_and_other_sequences_vanish(
    output: str, lines: list[str]
) -> None:
    assert terminal_html(output).split("\n") == lines


def test_an_unfinished_title_does_not_swallow_the_output() -> None:
    assert terminal_html("\x1b]0;title\nkept") == "␛]0;title\nkept"


def test_only_pictures_of_known_kinds_are_shown() -> None:
    assert data_image("image/png", "AAAA\nBB==") == "data:image/png;base64,AAAABB=="
    assert data_image("image/svg+xml", "AAAA") is None
    assert data_image("image/png", 'AAAA" onerror="x') is None
    assert data_image("image/png", "") is None
    assert safe_data_url("data:image/webp;base64,AAAA") == "data:image/webp;base64,AAAA"
    assert safe_data_url("data:image/svg;base64,AAAA") is None
    assert safe_data_url("http://a/b.png") is None
