"""Images: recognised by content, converted, and fitted to the limits of a model."""

import asyncio
import base64
import os
import struct
import tracemalloc
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.messages import Image
from ludolf.tools import ImageLimits, image_limits
from ludolf.tools.image_types import sniff
from ludolf.tools.images import (
    CONVERT_FAILED,
    RESIZE_FAILED,
    decode,
    fit_block,
    fit_image,
)


def picture(form: str, size: tuple[int, int] = (8, 4), mode: str = "RGB", **options: Any) -> bytes:
    from PIL import Image as images

    target = BytesIO()
    images.effect_noise(size, 80).convert(mode).save(target, form, **options)
    return target.getvalue()


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_formats_are_told_by_their_first_bytes(form: str) -> None:
    assert sniff(picture(form)) == f"image/{form.lower()}"


@pytest.mark.parametrize(
    "opening",
    [
        b"",
        b"BM is no bitmap, only a text that starts so",
        b"\xff\xd8\xff\xf7JPEG-LS",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR...acTL...IDAT",
        b"II*\0tiff",
    ],
)
def test_other_content_is_no_image(opening: bytes) -> None:
    assert sniff(opening) is None


def test_an_image_within_the_limits_keeps_its_bytes() -> None:
    data = picture("WEBP")
    fitted = asyncio.run(fit_image(data, ImageLimits()))
    assert fitted.image == Image(data=base64.b64encode(data).decode(), mime_type="image/webp")
    assert fitted.hints == ()


def test_a_bitmap_becomes_png_with_or_without_limits() -> None:
    for limits in (ImageLimits(), None):
        fitted = asyncio.run(fit_image(picture("BMP"), limits))
        assert fitted.image is not None
        assert sniff(base64.b64decode(fitted.image.data)) == fitted.image.mime_type == "image/png"
        assert fitted.hints == ("[Image converted from image/bmp to image/png.]",)


def test_what_cannot_be_converted_is_left_out() -> None:
    fitted = asyncio.run(fit_image(b"BM nonsense", ImageLimits()))
    assert (fitted.image, fitted.hints) == (None, (CONVERT_FAILED,))


def test_too_many_bytes_lead_to_jpeg_and_then_to_fewer_pixels() -> None:
    data = picture("PNG", (300, 200))
    as_jpeg = asyncio.run(fit_image(data, ImageLimits(max_bytes=60_000)))
    assert as_jpeg.image is not None
    assert as_jpeg.image.mime_type == "image/jpeg"
    assert as_jpeg.hints == ()
    smaller = asyncio.run(fit_image(data, ImageLimits(max_bytes=8_000)))
    assert smaller.image is not None
    assert len(smaller.image.data) < 8_000
    assert smaller.hints[0].startswith("[Image: original 300x200, displayed at ")


def test_a_limit_below_every_image_leaves_it_out() -> None:
    fitted = asyncio.run(fit_image(picture("PNG"), ImageLimits(max_bytes=10)))
    assert (fitted.image, fitted.hints) == (None, (RESIZE_FAILED,))


def test_a_rotated_photo_is_shown_upright() -> None:
    from PIL import Image as images

    exif = images.Exif()
    exif[0x0112] = 6
    data = picture("JPEG", (400, 200), exif=exif)
    fitted = asyncio.run(fit_image(data, ImageLimits(max_width=100, max_height=100)))
    assert fitted.image is not None
    assert images.open(BytesIO(base64.b64decode(fitted.image.data))).size == (50, 100)
    assert "original 200x400, displayed at 50x100. Multiply coordinates by 4.00" in fitted.hints[0]


@pytest.mark.parametrize("mode", ["P", "1", "L", "LA", "RGBA", "CMYK"])
def test_every_kind_of_pixel_can_be_shrunk(mode: str) -> None:
    form = "JPEG" if mode == "CMYK" else "PNG"
    data = picture(form, (300, 300), mode)
    for limits in (ImageLimits(max_width=30), ImageLimits(max_width=30, max_bytes=1500)):
        assert asyncio.run(fit_image(data, limits)).image is not None


def test_a_block_is_judged_by_its_content_not_by_its_label() -> None:
    block = Image(data=base64.b64encode(picture("PNG")).decode(), mime_type="image/jpeg")
    fitted = asyncio.run(fit_block(block, ImageLimits()))
    assert fitted.image == Image(data=block.data, mime_type="image/png")


def test_a_model_states_its_limits() -> None:
    stated = {"images": {"resize": {"maxWidth": 800, "maxBytes": 1000}}}
    assert image_limits(stated) == ImageLimits(max_width=800, max_bytes=1000)
    assert image_limits(None) == ImageLimits()


def chunk(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bare_png(width: int, height: int, extra: bytes = b"") -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))
    pixels = zlib.compress(bytes(height * (1 + width * 4)) if width < 1000 else b"")
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", pixels) + chunk(b"IEND")


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("limits", [ImageLimits(), None])
@pytest.mark.parametrize("mime_type", ["image/png", "image/eps", "image/tiff", "text/plain"])
def test_content_of_another_kind_is_left_out_and_starts_no_program(
    limits: ImageLimits | None, mime_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for data in (EPS, b"II*\0\x08\0\0\0", b"", b"\xff\xd8", picture("TIFF"), picture("ICO")):
        block = Image(data=base64.b64encode(data).decode(), mime_type=mime_type)
        fitted = asyncio.run(fit_block(block, limits))
        assert (fitted.image, fitted.hints) == (None, (CONVERT_FAILED,))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "data",
    [
        bare_png(9990, 10_000),
        bare_png(2**31 - 1, 2**31 - 1),
        bare_png(8, 8, chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(20_000_000)))),
        bare_png(8, 8, chunk(b"iTXt", b"a\0\1\0\0\0" + zlib.compress(bytes(20_000_000)))),
        bare_png(8, 8, chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(20_000_000)))),
        bare_png(8, 8, chunk(b"abCd") * 20_000),
        b"GIF89a\xff\xff\xff\xff\0\0\0",
        b"GIF89a\x08\0\x08\0\0\0\0" + b"!\xfe\x01a\0" * 20_000,
        b"BM" + struct.pack("<IHHIIiiHHIIiiII", 0, 0, 0, 54, 40, 9999, 9999, 1, 32, *[0] * 6),
        b"\xff\xd8" + b"\xff\xe1\0\x02" * 20_000,
        b"RIFF\xff\xff\xff\x7fWEBPVP8X" + bytes(range(256)),
        b"\x89PNG\r\n\x1a\n" + bytes(1000),
        picture("PNG", (300, 300))[:-500],
        picture("JPEG", (300, 300))[:-500],
        picture("GIF", (300, 300))[:200],
        picture("WEBP", (300, 300))[:200],
        picture("BMP", (300, 300))[:-500],
    ],
)
def test_bombs_and_broken_images_are_left_out(data: bytes) -> None:
    tracemalloc.start()
    try:
        fitted = asyncio.run(fit_image(data, ImageLimits()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert fitted.image is None
    assert fitted.hints[0] in (CONVERT_FAILED, RESIZE_FAILED)
    assert peak < 30_000_000


def test_a_jpeg_of_many_scans_is_left_out() -> None:
    data = picture("JPEG", (64, 64), progressive=True)
    scan = data[data.rfind(b"\xff\xda") : -2]
    fitted = asyncio.run(fit_image(data[:-2] + scan * 1000 + data[-2:], ImageLimits()))
    assert (fitted.image, fitted.hints) == (None, (RESIZE_FAILED,))


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_large_photo_is_decoded_at_a_fraction_of_its_size(orientation: int) -> None:
    from PIL import Image as images

    exif = images.Exif()
    exif[0x0112] = orientation
    target = BytesIO()
    images.new("L", (9000, 4000), 90).save(target, "JPEG", exif=exif)
    decoded = decode(target.getvalue(), "JPEG", (2000, 2000))
    assert decoded is not None
    assert decoded.size == ((4000, 9000) if orientation == 6 else (9000, 4000))
    assert decoded.picture.size == (2250, 1000)


def test_a_progressive_photo_that_needs_too_much_memory_is_left_out() -> None:
    data = bytearray(picture("JPEG", (64, 64), progressive=True, subsampling=0))
    at = data.index(b"\xff\xc2")
    data[at + 5 : at + 9] = struct.pack(">HH", 10_000, 10_000)
    assert decode(bytes(data), "JPEG", (2000, 2000)) is None


@pytest.mark.parametrize("mode", ["P", "1", "L", "LA", "RGB", "RGBA"])
def test_a_picture_reduced_in_strips_shows_the_same(mode: str) -> None:
    from PIL import Image as images
    from PIL import ImageChops, ImageStat

    plain = images.linear_gradient("L").resize((700, 1001)).convert("RGBA")
    target = BytesIO()
    plain.convert(mode).save(target, "PNG")
    decoded = decode(target.getvalue(), "PNG", None)
    assert decoded is not None
    small = decoded.drawn((100, 143)).convert("L")
    wanted = plain.convert(mode).convert("L").resize((100, 143))
    assert ImageStat.Stat(ImageChops.difference(small, wanted)).mean[0] < 5
