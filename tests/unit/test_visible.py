"""Characters that nobody sees are shown as signs, in pages and in the titles of dialogs."""

import unicodedata

import pytest

from ludolf.base.visible import escape_hidden, show_hidden
from ludolf.page.text import attribute, content, terminal_html

# First and last code point: DerivedCoreProperties.txt of Unicode 16, Default_Ignorable_Code_Point.
IGNORABLE = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5)),
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8)),
    *((0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
BLANK = (0x2028, 0x2029, 0x2800, 0xFFF9, 0xFFFC, 0x13441, 0x1D159)
PLAIN = (
    "plain text",
    "👨\u200d👩\u200d👧 👩🏽\u200d🚀 ❤\ufe0f\u200d🔥 ☎\ufe0e ©\ufe0f",
    "1\ufe0f\u20e3 🇩🇪",
    "می\u200cخواهم",  # Persian
    "क\u094d\u200dष",  # Devanagari
    "a\u00a0b\u3000c",  # blanks have a width
    "עברית",
)


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert show_hidden(text) == content(text) == text


def test_every_ignorable_and_blank_character_becomes_a_sign() -> None:
    for first, last in (*IGNORABLE, *((code, code) for code in BLANK)):
        for code in range(first, last + 1):
            sign = f"a[U+{code:04X}]b"
            text = f"a{chr(code)}b"
            assert content(text) == attribute(text) == sign
            assert terminal_html(f"\x1b[1m{text}") == f'<span class="a-b">{sign}</span>'
            assert escape_hidden(text).isascii()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("😀\ufe0f\ufe0f", "😀\ufe0f[U+FE0F]"),
        ("😀\U000e0101\U000e0102", "😀[U+E0101][U+E0102]"),
        ("😀\u200d", "😀[U+200D]"),
        ("\u200d😀", "[U+200D]😀"),
        ("1\ufe0f", "1[U+FE0F]"),
        ("ab\u200ccd", "ab[U+200C]cd"),
        ("می\u200c\u200cخواهم", "می[U+200C][U+200C]خواهم"),
    ],
)
def test_joiners_and_selectors_beyond_their_use_are_shown(text: str, shown: str) -> None:
    assert show_hidden(text) == shown


def test_titles_escape_what_is_not_printable_too() -> None:
    assert escape_hidden("a\n\x1b\u202e\u3164\u2800\xa0") == r"a\n\x1b\u202e\u3164\u2800\xa0"
    family = "👨\u200d👩\u200d👧 ❤\ufe0f"
    assert escape_hidden(family) == family


def test_no_other_character_of_a_format_category_is_unseen() -> None:
    """Format characters that stay as they are have a glyph, as signs around Arabic digits."""
    left = {
        code
        for code in range(0x110000)
        if unicodedata.category(chr(code)) == "Cf" and show_hidden(chr(code)) == chr(code)
    }
    assert left <= {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
