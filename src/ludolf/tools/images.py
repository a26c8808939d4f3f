"""Images as models take them: recognised by content, converted and shrunk where needed."""

import asyncio
import base64
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.ai.messages import Image
from ludolf.tools.options import ImageLimits

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

KEPT_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
CONVERT_FAILED = "[Image omitted: could not be converted to a supported inline image format.]"
RESIZE_FAILED = "[Image omitted: could not be resized below the inline image size limit.]"
# Unpacked, an image takes up to four bytes a pixel, whatever its file size.
_MAX_PIXELS = 100_000_000
_LESSER_QUALITIES = (85, 70, 55, 40)
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Fitted(msgspec.Struct, frozen=True):
    """An image ready for a model, or None, and what to tell the model about it."""

    image: Image | None
    hints: tuple[str, ...] = ()


def sniff(opening: bytes) -> str | None:
    """The image type that the first bytes of a file show, if it is one that can be shown."""
    if opening.startswith(b"\xff\xd8\xff"):
        return None if opening[3:4] == b"\xf7" else "image/jpeg"
    if opening.startswith(_PNG_SIGNATURE):
        return None if _is_animated_png(opening) else "image/png"
    if opening.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if opening.startswith(b"RIFF") and opening[8:12] == b"WEBP":
        return "image/webp"
    return "image/bmp" if _is_bmp(opening) else None


async def fit_image(data: bytes, mime_type: str, limits: ImageLimits | None) -> Fitted:
    """Convert and shrink in a thread; without limits only convert."""
    return await asyncio.to_thread(partial(_fit, data, mime_type, limits))


async def fit_block(image: Image, limits: ImageLimits | None) -> Fitted:
    """The same for an image block of a message."""
    try:
        data = base64.b64decode(image.data, validate=False)
    except ValueError:
        return Fitted(None, (CONVERT_FAILED,))
    return await fit_image(data, sniff(data) or image.mime_type, limits)


def _is_animated_png(opening: bytes) -> bool:
    control = opening.find(b"acTL")
    pixels = opening.find(b"IDAT")
    return control >= 0 and (pixels < 0 or control < pixels)


def _is_bmp(opening: bytes) -> bool:
    # Two letters are little proof; the reserved bytes and the header size must fit too.
    header = int.from_bytes(opening[14:18], "little")
    return opening.startswith(b"BM") and opening[6:10] == bytes(4) and header in (12, 40, 108, 124)


def _fit(data: bytes, mime_type: str, limits: ImageLimits | None) -> Fitted:
    hints: tuple[str, ...] = ()
    if mime_type not in KEPT_TYPES:
        converted = _as_png(data)
        if converted is None:
            return Fitted(None, (CONVERT_FAILED,))
        hints = (f"[Image converted from {mime_type} to image/png.]",)
        data, mime_type = converted, "image/png"
    if limits is None:
        return Fitted(_block(data, mime_type), hints)
    fitted = _shrink(data, mime_type, limits)
    return Fitted(fitted.image, hints + fitted.hints if fitted.image else fitted.hints)


def _as_png(data: bytes) -> bytes | None:
    picture = _open(data)
    return None if picture is None else _encode(picture, "PNG")


def _shrink(data: bytes, mime_type: str, limits: ImageLimits) -> Fitted:
    picture = _open(data)
    if picture is None:
        return Fitted(None, (RESIZE_FAILED,))
    width, height = picture.size
    within = width <= limits.max_width and height <= limits.max_height
    if within and _base64_size(data) < limits.max_bytes:
        return Fitted(_block(data, mime_type))
    ratio = min(1.0, limits.max_width / width, limits.max_height / height)
    size = (max(1, round(width * ratio)), max(1, round(height * ratio)))
    found = _first_that_fits(picture, size, limits)
    if found is None:
        return Fitted(None, (RESIZE_FAILED,))
    encoded, encoded_type, shown = found
    return Fitted(_block(encoded, encoded_type), _scale_hint((width, height), shown))


def _scale_hint(original: tuple[int, int], shown: tuple[int, int]) -> tuple[str, ...]:
    if original == shown:
        return ()
    return (
        f"[Image: original {original[0]}x{original[1]}, displayed at {shown[0]}x{shown[1]}. "
        f"Multiply coordinates by {original[0] / shown[0]:.2f} to map to original image.]",
    )


def _first_that_fits(
    picture: "Picture", size: tuple[int, int], limits: ImageLimits
) -> tuple[bytes, str, tuple[int, int]] | None:
    while True:
        shrunk = picture if picture.size == size else _resized(picture, size)
        for form, quality in _candidates(limits):
            data = _encode(shrunk, form, quality)
            if data is not None and _base64_size(data) < limits.max_bytes:
                return data, f"image/{form.lower()}", size
        if size == (1, 1):
            return None
        size = (max(1, size[0] * 3 // 4), max(1, size[1] * 3 // 4))


def _resized(picture: "Picture", size: tuple[int, int]) -> "Picture":
    # Colours of a palette cannot be mixed.
    smooth = picture.convert(_plain_mode(picture, "PNG")) if picture.mode in "P1" else picture
    return smooth.resize(size, reducing_gap=3.0)


def _candidates(limits: ImageLimits) -> tuple[tuple[str, int], ...]:
    qualities = (limits.jpeg_quality, *_LESSER_QUALITIES)
    return (("PNG", 0), *(("JPEG", quality) for quality in qualities))


def _open(data: bytes) -> "Picture | None":
    """The picture upright and unpacked, or None if it is broken or too large to unpack."""
    import warnings

    from PIL import Image as images
    from PIL import ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", images.DecompressionBombWarning)
        try:
            picture: Picture = images.open(BytesIO(data))
            if picture.size[0] * picture.size[1] > _MAX_PIXELS:
                return None
            upright = ImageOps.exif_transpose(picture)
            upright.load()
        except (OSError, ValueError, SyntaxError, images.DecompressionBombError):
            return None
    return upright


def _encode(picture: "Picture", form: str, quality: int = 0) -> bytes | None:
    options: dict[str, Any] = {"quality": quality} if form == "JPEG" else {}
    wanted = ("RGB", "L") if form == "JPEG" else ("RGB", "RGBA", "L", "LA", "P", "1", "I;16")
    target = BytesIO()
    try:
        ready = picture if picture.mode in wanted else picture.convert(_plain_mode(picture, form))
        ready.save(target, form, **options)
    except (OSError, ValueError):
        return None
    return target.getvalue()


def _plain_mode(picture: "Picture", form: str) -> str:
    return "RGB" if form == "JPEG" or not picture.has_transparency_data else "RGBA"


def _base64_size(data: bytes) -> int:
    return (len(data) + 2) // 3 * 4


def _block(data: bytes, mime_type: str) -> Image:
    return Image(data=base64.b64encode(data).decode("ascii"), mime_type=mime_type)
