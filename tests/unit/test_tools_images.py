"""Images: recognised by content, converted, and fitted to the limits of a model."""

import asyncio
import base64
from io import BytesIO
from typing import Any

import pytest

from ludolf.ai.messages import Image
from ludolf.tools import ImageLimits, image_limits
from ludolf.tools.images import CONVERT_FAILED, RESIZE_FAILED, fit_block, fit_image, sniff


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
    fitted = asyncio.run(fit_image(data, "image/webp", ImageLimits()))
    assert fitted.image == Image(data=base64.b64encode(data).decode(), mime_type="image/webp")
    assert fitted.hints == ()


def test_a_bitmap_becomes_png_with_or_without_limits() -> None:
    for limits in (ImageLimits(), None):
        fitted = asyncio.run(fit_image(picture("BMP"), "image/bmp", limits))
        assert fitted.image is not None
        assert sniff(base64.b64decode(fitted.image.data)) == fitted.image.mime_type == "image/png"
        assert fitted.hints == ("[Image converted from image/bmp to image/png.]",)


def test_what_cannot_be_converted_is_left_out() -> None:
    fitted = asyncio.run(fit_image(b"BM nonsense", "image/bmp", ImageLimits()))
    assert (fitted.image, fitted.hints) == (None, (CONVERT_FAILED,))


def test_too_many_bytes_lead_to_jpeg_and_then_to_fewer_pixels() -> None:
    data = picture("PNG", (300, 200))
    as_jpeg = asyncio.run(fit_image(data, "image/png", ImageLimits(max_bytes=60_000)))
    assert as_jpeg.image is not None
    assert as_jpeg.image.mime_type == "image/jpeg"
    assert as_jpeg.hints == ()
    smaller = asyncio.run(fit_image(data, "image/png", ImageLimits(max_bytes=8_000)))
    assert smaller.image is not None
    assert len(smaller.image.data) < 8_000
    assert smaller.hints[0].startswith("[Image: original 300x200, displayed at ")


def test_a_limit_below_every_image_leaves_it_out() -> None:
    fitted = asyncio.run(fit_image(picture("PNG"), "image/png", ImageLimits(max_bytes=10)))
    assert (fitted.image, fitted.hints) == (None, (RESIZE_FAILED,))


def test_a_rotated_photo_is_shown_upright() -> None:
    from PIL import Image as images

    exif = images.Exif()
    exif[0x0112] = 6
    data = picture("JPEG", (400, 200), exif=exif)
    fitted = asyncio.run(fit_image(data, "image/jpeg", ImageLimits(max_width=100, max_height=100)))
    assert fitted.image is not None
    assert images.open(BytesIO(base64.b64decode(fitted.image.data))).size == (50, 100)
    assert "original 200x400, displayed at 50x100. Multiply coordinates by 4.00" in fitted.hints[0]


@pytest.mark.parametrize("mode", ["P", "1", "L", "LA", "RGBA", "CMYK"])
def test_every_kind_of_pixel_can_be_shrunk(mode: str) -> None:
    form = "JPEG" if mode == "CMYK" else "PNG"
    data = picture(form, (300, 300), mode)
    for limits in (ImageLimits(max_width=30), ImageLimits(max_width=30, max_bytes=1500)):
        assert asyncio.run(fit_image(data, f"image/{form.lower()}", limits)).image is not None


def test_a_block_is_judged_by_its_content_not_by_its_label() -> None:
    block = Image(data=base64.b64encode(picture("PNG")).decode(), mime_type="image/jpeg")
    fitted = asyncio.run(fit_block(block, ImageLimits()))
    assert fitted.image == Image(data=block.data, mime_type="image/png")


def test_a_model_states_its_limits() -> None:
    stated = {"images": {"resize": {"maxWidth": 800, "maxBytes": 1000}}}
    assert image_limits(stated) == ImageLimits(max_width=800, max_bytes=1000)
    assert image_limits(None) == ImageLimits()
