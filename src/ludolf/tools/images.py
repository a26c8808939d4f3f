"""Prepare images for models: detect the type by content, convert, and shrink if needed."""

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

import msgspec

from ludolf.ai.messages import Image
from ludolf.tools.options import ImageLimits
from ludolf.tools.pictures import Decoded, Form, Size, decode, encode, fitted

if TYPE_CHECKING:
    from concurrent.futures import Executor

# Number of bytes from which the type of a file is detected.
SNIFF_BYTES = 4100
KEPT_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
CONVERT_FAILED = "[Image omitted: could not be converted to a supported inline image format.]"
RESIZE_FAILED = "[Image omitted: could not be resized below the inline image size limit.]"
_FORMS: Mapping[str, Form] = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/bmp": "BMP",
}
_LESSER_QUALITIES = (85, 70, 55, 40)
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Fitted(msgspec.Struct, frozen=True):
    """An image ready for a model, or None, and hints about it for the model."""

    image: Image | None
    hints: tuple[str, ...] = ()


def sniff(opening: bytes) -> str | None:
    """Return the MIME type of an image from its first bytes; None if it is not supported."""
    if opening.startswith(b"\xff\xd8\xff"):
        return None if opening[3:4] == b"\xf7" else "image/jpeg"
    if opening.startswith(_PNG_SIGNATURE):
        return None if _is_animated_png(opening) else "image/png"
    if opening.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if opening.startswith(b"RIFF") and opening[8:12] == b"WEBP":
        return "image/webp"
    return "image/bmp" if _is_bmp(opening) else None


async def fit_image(data: bytes, limits: ImageLimits | None) -> Fitted:
    """Convert and shrink an image; without limits only convert.

    The type is detected from the content. One thread processes one image at a time, so that several
    images need no more memory than one.
    """
    return await _in_order(partial(_fit, data, limits))


async def fit_block(image: Image, limits: ImageLimits | None) -> Fitted:
    """Convert and shrink an image block of a message, as `fit_image`."""
    return await _in_order(partial(_fit_block, image, limits))


async def _in_order(work: Callable[[], Fitted]) -> Fitted:
    return await asyncio.get_running_loop().run_in_executor(_worker(), work)


@cache
def _worker() -> "Executor":
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1, "images")


def _is_animated_png(opening: bytes) -> bool:
    control = opening.find(b"acTL")
    pixels = opening.find(b"IDAT")
    return control >= 0 and (pixels < 0 or control < pixels)


def _is_bmp(opening: bytes) -> bool:
    # Two letters are not enough; the reserved bytes and the header size must match too.
    header = int.from_bytes(opening[14:18], "little")
    return opening.startswith(b"BM") and opening[6:10] == bytes(4) and header in (12, 40, 108, 124)


def _form(data: bytes) -> Form | None:
    # Animated PNGs too: an image block is always an image.
    if data.startswith(_PNG_SIGNATURE):
        return "PNG"
    return _FORMS.get(sniff(data[:SNIFF_BYTES]) or "")


def _fit_block(image: Image, limits: ImageLimits | None) -> Fitted:
    try:
        data = base64.b64decode(image.data, validate=False)
    except ValueError:
        return Fitted(None, (CONVERT_FAILED,))
    return _fit(data, limits)


def _fit(data: bytes, limits: ImageLimits | None) -> Fitted:
    form = _form(data)
    if form is None:
        return Fitted(None, (CONVERT_FAILED,))
    mime_type = f"image/{form.lower()}"
    is_kept = mime_type in KEPT_TYPES
    if is_kept and limits is None:
        return Fitted(_block(data, mime_type))
    decoded = decode(data, form, (limits.max_width, limits.max_height) if limits else None)
    if is_kept:
        return _shrunk(decoded, data, mime_type, limits or ImageLimits())
    if decoded is None:
        return Fitted(None, (CONVERT_FAILED,))
    return _converted(decoded, mime_type, limits)


def _converted(decoded: Decoded, mime_type: str, limits: ImageLimits | None) -> Fitted:
    is_within = limits is None or fitted(decoded.size, _box(limits)) == decoded.size
    data = encode(decoded.drawn(decoded.size), "PNG") if is_within else b""
    if data is None:
        return Fitted(None, (CONVERT_FAILED,))
    if limits is None:
        result = Fitted(_block(data, "image/png"))
    else:
        result = _shrunk(decoded, data, "image/png", limits)
    hint = f"[Image converted from {mime_type} to image/png.]"
    return Fitted(result.image, (hint, *result.hints)) if result.image else result


def _shrunk(decoded: Decoded | None, data: bytes, mime_type: str, limits: ImageLimits) -> Fitted:
    """Return the data unchanged if it is within the limits, else a smaller image."""
    if decoded is None:
        return Fitted(None, (RESIZE_FAILED,))
    size = fitted(decoded.size, _box(limits))
    if size == decoded.size and _base64_size(data) < limits.max_bytes:
        return Fitted(_block(data, mime_type))
    result = _first_that_fits(decoded, size, limits)
    if result is None:
        return Fitted(None, (RESIZE_FAILED,))
    encoded, encoded_type, shown = result
    return Fitted(_block(encoded, encoded_type), _scale_hint(decoded.size, shown))


def _box(limits: ImageLimits) -> Size:
    return limits.max_width, limits.max_height


def _scale_hint(original: Size, shown: Size) -> tuple[str, ...]:
    if original == shown:
        return ()
    return (
        f"[Image: original {original[0]}x{original[1]}, displayed at {shown[0]}x{shown[1]}. "
        f"Multiply coordinates by {original[0] / shown[0]:.2f} to map to original image.]",
    )


def _first_that_fits(
    decoded: Decoded, size: Size, limits: ImageLimits
) -> tuple[bytes, str, Size] | None:
    while True:
        shrunk = decoded.drawn(size)
        for form, quality in _candidates(limits):
            data = encode(shrunk, form, quality)
            if data is not None and _base64_size(data) < limits.max_bytes:
                return data, f"image/{form.lower()}", size
        if size == (1, 1):
            return None
        size = (max(1, size[0] * 3 // 4), max(1, size[1] * 3 // 4))


def _candidates(limits: ImageLimits) -> Iterator[tuple[Literal["PNG", "JPEG"], int]]:
    yield "PNG", 0
    for quality in (limits.jpeg_quality, *_LESSER_QUALITIES):
        yield "JPEG", quality


def _base64_size(data: bytes) -> int:
    return (len(data) + 2) // 3 * 4


def _block(data: bytes, mime_type: str) -> Image:
    return Image(data=base64.b64encode(data).decode("ascii"), mime_type=mime_type)
