"""Blocks of a prompt become its text and its images."""

from typing import Any

import pytest

from ludolf.ai.messages import Image, Text
from ludolf.protocol.acp.content import (
    MAX_EMBEDDED,
    content_blocks,
    prompt_input,
    session_title,
)
from ludolf.protocol.acp.structs import InvalidParams


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _link(uri: str, name: str = "name") -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": name}


def _resource(**fields: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": fields}


def test_links_stay_in_the_sentence() -> None:
    blocks = [
        _text("Compare "),
        _link("file:///w/a%20b.py"),
        _text("with"),
        _link("https://x.example/"),
    ]
    text, images = prompt_input(blocks, takes_images=True)
    assert text == "Compare @/w/a b.py with name (https://x.example/)"
    assert images == ()


def test_embedded_text_is_fenced_under_its_path() -> None:
    blocks = [_text("/review this"), _resource(uri="file:///w/a.md", text="a\n```\nb\n")]
    text, _ = prompt_input(blocks, takes_images=True)
    assert text == "/review this\n/w/a.md\n````\na\n```\nb\n````\n"


def test_long_embedded_text_is_only_named() -> None:
    long = "é" * (MAX_EMBEDDED // 2 + 1)
    text, _ = prompt_input([_resource(uri="file:///w/big.txt", text=long)], takes_images=True)
    assert text.startswith("@/w/big.txt\n") and len(text) < 200


def test_images_reach_only_a_model_that_takes_them() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    blob = _resource(uri="file:///w/a.gif", blob="BBBB", mimeType="image/gif")
    parts = (Image(data="AAAA", mime_type="image/png"), Image(data="BBBB", mime_type="image/gif"))
    assert prompt_input([image, blob], takes_images=True) == ("", parts)
    text, images = prompt_input([_text("see"), image], takes_images=False)
    assert images == () and text.startswith("see\n[An image was left out")


def test_other_binary_content_is_named() -> None:
    text, images = prompt_input([_resource(uri="x://a", blob="AA==")], takes_images=True)
    assert text == "[Binary content of x://a was left out.]\n" and images == ()


@pytest.mark.parametrize(
    ("block", "named"),
    [
        ("text", r"prompt\[1\]: expected an object, got str"),
        ({"type": "text"}, r"prompt\[1\].text: expected a string, got nothing"),
        ({"type": "text", "text": 5}, r"prompt\[1\].text: expected a string, got int"),
        ({"type": "audio", "data": "", "mimeType": "audio/wav"}, "audio is not supported"),
        ({"type": "video"}, r"prompt\[1\].type: unknown content type 'video'"),
        ({"type": "resource"}, r"prompt\[1\].resource: expected an object, got null"),
        ({"type": "resource", "resource": {"uri": "x"}}, "`text` or `blob`"),
        ({"type": "image", "data": "A"}, "mimeType: expected a string"),
    ],
)
def test_a_wrong_block_is_refused_by_its_place(block: Any, named: str) -> None:
    with pytest.raises(InvalidParams, match=named):
        prompt_input([_text("a"), block], takes_images=True)


def test_parts_become_blocks_without_empty_texts() -> None:
    parts = (Text(text=""), Text(text="a"), Image(data="AA", mime_type="image/png"))
    assert content_blocks(parts) == [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "AA", "mimeType": "image/png"},
    ]


def test_a_title_is_one_line_of_at_most_80_characters() -> None:
    assert session_title("  fix\n the   bug ") == "fix the bug"
    title = session_title("word " * 100_000)
    assert len(title) <= 80 and title.endswith("word…")
    assert len(session_title("x" * 500)) == 80
