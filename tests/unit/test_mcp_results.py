"""Results of servers become texts, images and files for models."""

import asyncio
import base64
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ludolf.agent.tool import ToolFailure, ToolOutput
from ludolf.ai.messages import Image, Part, Text
from ludolf.mcp.definitions import ToolDefinition
from ludolf.mcp.results import prompt_parts, resource_parts, tool_output
from ludolf.tools.truncate import MAX_BYTES

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)
TOOL = ToolDefinition(
    server="lab", tool="get", name="mcp__lab__get", description="", parameters={}, digest=""
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
)
KEYS = st.sampled_from(
    ["type", "text", "data", "uri", "resource", "blob", "mimeType", "name", "role"]
)
KINDS = st.sampled_from(["text", "image", "audio", "resource", "resource_link", "assistant"])
ANY_JSON = st.recursive(
    LEAVES | KINDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
)


def converted(result: Any, folder: Path) -> ToolOutput:
    return asyncio.run(tool_output(result, definition=TOOL, folder=folder))


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def texts(parts: tuple[Part, ...]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def shown(folder: Path, *items: Any, **more: Any) -> str:
    return texts(converted({"content": list(items), **more}, folder).content)


# ---------------------------------------------------------------- kinds of content


def test_texts_and_images_keep_their_order(tmp_path: Path) -> None:
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    output = converted({"content": [said("a"), said("b"), image, said("c")]}, tmp_path)
    first, picture, last = output.content
    assert (first, last) == (Text(text="a\nb"), Text(text="c"))
    assert isinstance(picture, Image)
    assert output.details == {"server": "lab", "tool": "get"}


def test_embedded_text_is_under_its_address_and_links_are_named(tmp_path: Path) -> None:
    resource = {"uri": "lab://inner", "mimeType": "text/plain", "text": "EMBEDDED"}
    link = {"type": "resource_link", "uri": "lab://doc", "name": "doc"}
    text = shown(tmp_path, link, {"type": "resource", "resource": resource})
    assert text == "doc (lab://doc)\nlab://inner:\nEMBEDDED"


def test_sound_and_other_data_are_saved_in_private_files(tmp_path: Path) -> None:
    data = base64.b64encode(b"DATA").decode()
    text = shown(
        tmp_path,
        {"type": "audio", "data": data, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "lab://x/report.xlsx", "blob": data}},
        {"type": "image", "data": data, "mimeType": "image/svg+xml"},
    )
    files = sorted(tmp_path.iterdir(), key=lambda path: path.suffix)
    assert [path.suffix for path in files] == [".svg", ".wav", ".xlsx"]
    assert {path.read_bytes() for path in files} == {b"DATA"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert all(str(path) in text for path in files)


def test_a_folder_that_cannot_be_written_costs_only_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    data = base64.b64encode(b"DATA").decode()
    text = shown(tmp_path / "file", {"type": "audio", "data": data}, said("rest"))
    assert "could not be saved" in text
    assert text.endswith("rest")


def test_broken_items_are_counted_and_the_rest_is_kept(tmp_path: Path) -> None:
    odd = [{"type": "hologram", "data": 1}, {"type": "text"}, None, {"type": "image", "data": "!!"}]
    text = shown(tmp_path, *odd, said("ODD-END"))
    assert text == "ODD-END\n[4 items are left out: broken or of an unknown kind]"


@pytest.mark.parametrize(
    "result", [{}, {"content": []}, {"content": None}, {"content": [said("")]}]
)
def test_an_empty_result_says_so(result: Any, tmp_path: Path) -> None:
    assert converted(result, tmp_path).content == (Text(text="(no output)"),)


def test_an_error_keeps_the_words_of_the_server(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match=r"^it FAILED$") as caught:
        converted({"content": [said("it FAILED")], "isError": True}, tmp_path)
    assert caught.value.output
    assert caught.value.output.details == {"server": "lab", "tool": "get"}


def test_escapes_and_tag_characters_are_removed_from_texts(tmp_path: Path) -> None:
    hidden = "".join(chr(0xE0000 + ord(sign)) for sign in "secret")
    assert shown(tmp_path, said(f"\x1b[31mred\x1b[0m \x9b1mü{hidden}\x1b]0;t\x07 שלום\u200f")) == (
        "red ü שלום\u200f"
    )


def test_escapes_are_removed_from_long_texts_as_a_whole(tmp_path: Path) -> None:
    coloured = "\x1b[31mred\x1b[0m ü\n"
    shown(tmp_path, said(coloured * 100_000))
    (file,) = tmp_path.iterdir()
    assert file.read_text() == "red ü\n" * 100_000


# ---------------------------------------------------------------- structured content


def test_structured_content_is_stated_once(tmp_path: Path) -> None:
    data = {"answer": [42, "é"]}
    alone = converted({"content": [], "structuredContent": data}, tmp_path)
    assert json.loads(texts(alone.content)) == data
    assert alone.details["structuredContent"] == data
    for same in (json.dumps(data), json.dumps(data, indent=4), f" {json.dumps(data)}\n"):
        assert shown(tmp_path, said(same), structuredContent=data) == same
    assert shown(tmp_path, said("plain"), structuredContent={"result": "plain"}) == "plain"
    assert shown(tmp_path, said("{}"), structuredContent=data) == '{}\n{"answer":[42,"é"]}'


def test_large_or_deep_structured_content_is_not_in_the_details(tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    for data in ({"rows": ["x" * 1000] * 1000}, deep):
        assert converted({"structuredContent": data}, tmp_path).details == {
            "server": "lab",
            "tool": "get",
        }


# ---------------------------------------------------------------- limits


def test_long_text_is_cut_and_the_whole_is_in_a_file(tmp_path: Path) -> None:
    lines = "".join(f"line {at} ü\n" for at in range(20_000))
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    output = converted({"content": [said(lines), image, said("END")]}, tmp_path)
    text, picture = output.content
    assert isinstance(text, Text)
    assert isinstance(picture, Image)
    (file,) = tmp_path.iterdir()
    assert file.read_text() == f"{lines}\nEND"
    assert file.stat().st_mode & 0o777 == 0o600
    head, _, note = text.text.rpartition("\n\n")
    assert lines.startswith(head)
    assert len(head) < MAX_BYTES
    assert note == f"[Showing lines 1-2000 of 20002. Full output: {file}]"


def test_one_long_line_is_cut_without_many_copies(tmp_path: Path) -> None:
    result = {"content": [said("BEGIN " + "0123456789abcdef" * 64 * 8192)]}
    tracemalloc.start()
    try:
        output = converted(result, tmp_path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (file,) = tmp_path.iterdir()
    text = texts(output.content)
    assert text.startswith("BEGIN 0123")
    assert text.endswith(f"[Showing the first 50.0KB of 8.0MB. Full output: {file}]")
    assert file.stat().st_size == 6 + 8 * 1024 * 1024
    assert most < 16 * 1024 * 1024


@given(ANY_JSON, ANY_JSON)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_converted(tmp_path: Path, items: Any, structured: Any) -> None:
    async def run() -> None:
        await tool_output(
            {"content": items, "structuredContent": structured}, definition=TOOL, folder=tmp_path
        )
        await resource_parts({"contents": items}, server="lab", folder=tmp_path)
        await prompt_parts({"messages": items}, server="lab", folder=tmp_path)

    asyncio.run(run())


# ---------------------------------------------------------------- resources and prompts


def test_a_resource_is_read_with_its_address(tmp_path: Path) -> None:
    contents = [
        {"uri": "lab://a", "text": "A"},
        {"uri": "lab://b", "blob": PIXEL, "mimeType": "image/png"},
    ]
    text, image = asyncio.run(resource_parts({"contents": contents}, server="lab", folder=tmp_path))
    assert text == Text(text="lab://a:\nA")
    assert isinstance(image, Image)


def test_a_prompt_names_the_role_where_it_changes(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": said("Q")},
        {"role": "assistant", "content": [said("A"), {"type": "resource_link", "uri": "lab://x"}]},
        {"role": "user", "content": said("More.")},
        None,
    ]
    parts = asyncio.run(prompt_parts({"messages": messages}, server="lab", folder=tmp_path))
    assert texts(parts) == (
        "Q\n[assistant]\nA\nlab://x\n[user]\nMore.\n"
        "[1 item is left out: broken or of an unknown kind]"
    )
