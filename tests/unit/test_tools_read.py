"""The read tool: parts of files, notices, refusals."""

import asyncio
import base64
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from ludolf.agent.tool import ToolContext, ToolFailure, ToolOutput
from ludolf.ai.messages import Image, text_of
from ludolf.tools import BuiltinToolOptions
from ludolf.tools.read import ReadTool
from tests.samples import ignore, run_tool


def read(
    cwd: Path, options: BuiltinToolOptions | None = None, *, sees: bool = True, **args: Any
) -> ToolOutput:
    tool = ReadTool(options or BuiltinToolOptions())
    ctx = ToolContext(call_id="c", cwd=cwd, report=ignore, takes_images=sees)
    return asyncio.run(run_tool(tool, args, ctx))


def shown(cwd: Path, **args: Any) -> str:
    return text_of(read(cwd, **args).content)


def failure(cwd: Path, **args: Any) -> str:
    with pytest.raises(ToolFailure) as error:
        read(cwd, **args)
    return str(error.value)


def test_a_small_file_is_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n")
    result = read(tmp_path, path="a.txt")
    assert text_of(result.content) == "\ufeffone\r\ntwo\n"
    assert result.details is UNSET


def test_offset_and_limit_select_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    assert shown(tmp_path, path="a.txt", offset=2) == "two\nthree\nfour\n"
    assert shown(tmp_path, path="a.txt", offset=2, limit=2) == (
        "two\nthree\n\n[2 more lines in file. Use offset=4 to continue.]"
    )
    assert shown(tmp_path, path="a.txt", offset=4, limit=2) == "four\n"


def test_a_long_file_is_cut_after_two_thousand_lines(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("a line of text\n" * 3000)
    result = read(tmp_path, path="big.txt")
    body = "\n".join(["a line of text"] * 2000)
    notice = "[Showing lines 1-2000 of 3001. Use offset=2001 to continue.]"
    assert text_of(result.content) == f"{body}\n\n{notice}"
    truncation = result.details["truncation"]
    assert truncation["content"] == body
    assert (truncation["totalLines"], truncation["totalBytes"]) == (3000, 45000)


def test_the_last_part_of_a_long_file_needs_no_notice(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("".join(f"{number}\n" for number in range(1, 3001)))
    assert shown(tmp_path, path="big.txt", offset=2999) == "2999\n3000\n"


def test_wide_lines_are_cut_by_bytes(tmp_path: Path) -> None:
    (tmp_path / "wide.txt").write_text(("x" * 999 + "\n") * 100)
    text = shown(tmp_path, path="wide.txt", offset=11)
    assert text.endswith(
        "\n\n[Showing lines 11-61 of 101 (50.0KB limit). Use offset=62 to continue.]"
    )


def test_a_line_wider_than_the_limit_is_named_not_shown(tmp_path: Path) -> None:
    (tmp_path / "wide.txt").write_text("short\n" + "w" * 120_000)
    result = read(tmp_path, path="wide.txt", offset=2)
    assert text_of(result.content) == (
        "[Line 2 is 117.2KB, exceeds 50.0KB limit. Use bash: sed -n '2p' wide.txt | head -c 51200]"
    )
    truncation = result.details["truncation"]
    assert (truncation["firstLineExceedsLimit"], truncation["totalBytes"]) == (True, 120_000)


def test_lines_across_the_scan_are_found_where_they_are(tmp_path: Path) -> None:
    lines = [f"{number:0500}" for number in range(20_000)]
    (tmp_path / "big.txt").write_text("\n".join(lines))
    for offset in (1, 2096, 2097, 2098, 10_000, 20_000):
        text = shown(tmp_path, path="big.txt", offset=offset, limit=1)
        assert text.split("\n\n[")[0] == lines[offset - 1]


def test_binary_content_stays_within_the_limit(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"\xff\n" * 25_000)
    assert len(shown(tmp_path, path="bin").encode()) < 51_400


def test_an_offset_behind_the_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert failure(tmp_path, path="a.txt", offset=4) == (
        "Offset 4 is beyond end of file (3 lines total)"
    )


def test_missing_files_and_folders_are_told_as_models_know_it(tmp_path: Path) -> None:
    assert failure(tmp_path, path="no") == (
        f"ENOENT: no such file or directory, access '{tmp_path}/no'"
    )
    assert failure(tmp_path, path=".") == "EISDIR: illegal operation on a directory, read"


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert failure(tmp_path, path="fifo").startswith("Not a regular file: ")
    assert "character device" in failure(tmp_path, path="/dev/zero")
    assert failure(tmp_path, path="/proc/self/mem").startswith("EIO: ")


def test_a_huge_file_is_refused_with_a_way_to_go_on(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(3 << 30)
    text = failure(tmp_path, path="sparse")
    assert text.startswith("File is too large to read: more than 256.0MB. Use bash: sed -n ")


def test_paths_are_understood_as_models_write_them(tmp_path: Path) -> None:
    (tmp_path / "with space.txt").write_text("ok")
    (tmp_path / "3.04 PM\u202fx".replace(" PM\u202fx", "\u202fPM.png")).write_text("shot")
    (tmp_path / "it\u2019s.txt").write_text("curly")
    (tmp_path / "cafe\u0301.txt").write_text("split")
    assert shown(tmp_path, path="@with\u00a0space.txt") == "ok"
    assert shown(tmp_path, path=f"file://{tmp_path}/with%20space.txt") == "ok"
    assert shown(tmp_path, path="3.04 PM.png") == "shot"
    assert shown(tmp_path, path="it's.txt") == "curly"
    assert shown(tmp_path, path="caf\u00e9.txt") == "split"


def test_a_tilde_stands_for_the_home_of_the_context(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    tool = ReadTool(BuiltinToolOptions())
    ctx = ToolContext(call_id="c", cwd=Path("/"), report=ignore, home=tmp_path)
    output = asyncio.run(tool.execute({"path": "~/notes"}, ctx))
    assert text_of(output.content) == "mine"


def png(width: int, height: int) -> bytes:
    from PIL import Image as images

    target = BytesIO()
    images.new("RGB", (width, height), "red").save(target, "PNG")
    return target.getvalue()


def test_an_image_comes_as_an_image(tmp_path: Path) -> None:
    (tmp_path / "dot").write_bytes(png(2, 2))
    text, image = read(tmp_path, path="dot").content
    assert text_of((text,)) == "Read image file [image/png]"
    assert image == Image(data=base64.b64encode(png(2, 2)).decode(), mime_type="image/png")


def test_a_large_image_is_shrunk_and_its_scale_told(tmp_path: Path) -> None:
    (tmp_path / "big.png").write_bytes(png(4000, 1000))
    result = read(tmp_path, path="big.png", sees=False)
    assert text_of(result.content) == (
        "Read image file [image/png]\n"
        "[Image: original 4000x1000, displayed at 2000x500. "
        "Multiply coordinates by 2.00 to map to original image.]\n"
        "[Current model does not support images. The image will be omitted from this request.]"
    )


def test_a_setting_keeps_images_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "big.png").write_bytes(png(4000, 10))
    kept = read(tmp_path, BuiltinToolOptions(auto_resize=False), path="big.png")
    assert kept.content[1] == Image(
        data=base64.b64encode(png(4000, 10)).decode(), mime_type="image/png"
    )


def test_a_broken_image_is_left_out_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(png(20, 20)[:60])
    result = read(tmp_path, path="broken.png")
    assert len(result.content) == 1
    assert text_of(result.content) == (
        "Read image file [image/png]\n"
        "[Image omitted: could not be resized below the inline image size limit.]"
    )
