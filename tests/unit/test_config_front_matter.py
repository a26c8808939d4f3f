"""The YAML header of Markdown files."""

from typing import Any

import pytest

from ludolf.config import front_matter


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
