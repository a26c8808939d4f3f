"""The YAML header of Markdown files."""

from typing import Any

import pytest

from ludolf.config.resources import front_matter


def test_headers_are_read_as_yaml_1_2() -> None:
    text = (
        "---\na: yes\nb: on\nc: true\nd: 012\ne: 0x1F\nf: 1.5\ng: ~\nh: 2026-01-02\ni: 1:30\n"
        "j: >\n  folded\n  text\n---\n\n  Body\n---\nrule\n"
    )
    header, body = front_matter.split(text)
    assert header == {
        "a": "yes",
        "b": "on",
        "c": True,
        "d": 12,
        "e": 31,
        "f": 1.5,
        "g": None,
        "h": "2026-01-02",
        "i": "1:30",
        "j": "folded text\n",
    }
    assert body == "Body\n---\nrule"


@pytest.mark.parametrize(
    ("text", "header", "body"),
    [
        ("no header", {}, "no header"),
        ("\n no header \n", {}, "\n no header \n"),
        ("---\nnever closed", {}, "---\nnever closed"),
        ("\ufeff---\r\na: b\r\n---\r\nx\r\ny", {"a": "b"}, "x\ny"),
        ("---\n---\nx", {}, "x"),
        ("---\na: b\n---", {"a": "b"}, ""),
    ],
)
def test_edges_of_headers(text: str, header: dict[str, Any], body: str) -> None:
    assert front_matter.split(text) == (header, body)


@pytest.mark.parametrize("yaml", ["a: [", "- list", "!!python/object/apply:os.getcwd []"])
def test_a_bad_header_is_refused(yaml: str) -> None:
    with pytest.raises(ValueError, match="invalid front matter"):
        front_matter.split(f"---\n{yaml}\n---\n")


def _nested_aliases() -> str:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("x: " + "[" * 50_000, "nested too deeply"),
        ("x: " + "{a: " * 5_000, "nested too deeply"),
        ("- " * 5_000, "nested too deeply"),
        ("x: " + "y" * 70_000, "longer than 65,536 characters"),
        (_nested_aliases(), "more than 16 aliases"),
        ("x: !!bool maybe", "tags are not supported"),
        ("x: !!timestamp soon", "tags are not supported"),
        ("x: !!float ''", "tags are not supported"),
        ("? [a]\n: b", "invalid front matter"),
    ],
)
def test_a_hostile_header_is_refused(header: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        front_matter.split(f"---\n{header}\n---\nbody")


def test_a_few_aliases_are_followed() -> None:
    header, _ = front_matter.split("---\na: &a [x]\nb: *a\n---\n")
    assert header == {"a": ["x"], "b": ["x"]}


def test_a_giant_number_is_a_text() -> None:
    header, _ = front_matter.split(f"---\na: 0x{'f' * 9_000}\nb: {'9' * 9_000}\n---\n")
    assert front_matter.text_field(header, "a") == "0x" + "f" * 9_000
    assert front_matter.text_field(header, "b") == "9" * 9_000
