"""Prepare images for models: convert, and shrink if needed.

Pillow decodes and encodes within limits of memory and time. Only the decoder of the format
detected from the content is used, never one that Pillow picks.
"""

import asyncio
import base64
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from ludolf.ai.messages import Image
from ludolf.tools.image_types import MAX_IMAGE_BYTES, PNG_SIGNATURE, SNIFF_BYTES, sniff
from ludolf.tools.options import ImageLimits

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from PIL.Image import Image as Picture
    from PIL.ImageFile import ImageFile
    from PIL.JpegImagePlugin import JpegImageFile

Form = Literal["PNG", "JPEG", "GIF", "WEBP", "BMP"]
Size = tuple[int, int]

KEPT_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
CONVERT_FAILED = "[Image omitted: could not be converted to a supported inline image format.]"
RESIZE_FAILED = "[Image omitted: could not be resized below the inline image size limit.]"
_LESSER_QUALITIES = (85, 70, 55, 40)
# Memory for decoding one image, in bytes. 7680x4320 pixels of four bytes fit.
_MAX_MEMORY = 134_000_000
_MAX_JPEG_PIXELS = 120_000_000
# Each scan of a JPEG processes the whole image; progressive ones have about ten.
_MAX_JPEG_SCANS = 64
# The WebP decoder holds two canvases and copies its result.
_WEBP_BYTES_PER_PIXEL = 16
# A compressed block may expand a thousandfold; other threads run between two blocks.
_BLOCK = 4096
_ORIENTATION = 0x0112
_MOST_READS_OF_HEADER = 10_000
_MOST_READS = 200_000
_REDUCIBLE = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")
_STRIP = 64
# By format: the beginning of the names of its module and its class in Pillow.
_PLUGINS: Mapping[Form, str] = {
    "PNG": "Png",
    "JPEG": "Jpeg",
    "GIF": "Gif",
    "WEBP": "WebP",
    "BMP": "Bmp",
}


class Fitted(msgspec.Struct, frozen=True):
    """An image ready for a model, or None, and hints about it for the model."""

    image: Image | None
    hints: tuple[str, ...] = ()


class Decoded(msgspec.Struct, frozen=True):
    """A picture as stored, its size when upright, and how to turn it.

    A large JPEG is decoded at a fraction of its size, but not below the size that was asked for.
    """

    picture: Any
    size: Size
    orientation: int

    def drawn(self, size: Size) -> "Picture":
        """Return the picture upright, scaled to a size."""
        stored = _turned_size(size, self.orientation)
        picture: Picture = self.picture
        if picture.size != stored:
            picture = _mixable(_reduced(picture, stored)).resize(stored)
        return _turned(picture, self.orientation)


def file_in_prompt(path: Path, data: bytes, images: list[Image]) -> str:
    """Return the text that stands for a file in a prompt; an image is added to `images`."""
    mime = sniff(data)
    if mime is None:
        return f'<file name="{path}">\n{data.decode("utf-8", "replace")}\n</file>\n'
    images.append(Image(data=base64.b64encode(data).decode(), mime_type=mime))
    return f'<file name="{path}"></file>\n'


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


def _form(data: bytes) -> Form | None:
    # Animated PNGs too: an image block is always an image.
    if data.startswith(PNG_SIGNATURE):
        return "PNG"
    mime_type = sniff(data[:SNIFF_BYTES])
    return cast("Form", mime_type.removeprefix("image/").upper()) if mime_type else None


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


# ---------------------------------------------------------------- Pillow


def decode(data: bytes, form: Form, box: Size | None) -> Decoded | None:
    """Decode an image that is to be shown within a box.

    Returns None if it is broken, is not of that format, or takes too much memory.
    """
    if len(data) > MAX_IMAGE_BYTES:
        return None
    from PIL.Image import DecompressionBombError

    source = _Source(data)
    try:
        picture = _opened(source, form)
        stored = picture.size
        if not _prepare(picture, form, data, box):
            return None
        source.reads_left = _MOST_READS
        picture.decodermaxblock = _BLOCK
        picture.load()
        orientation = _orientation(picture)
    # Decoders have raised each of these on broken data.
    except (
        *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError),
        *(OSError, RuntimeError, SyntaxError, TypeError, ValueError, struct.error, zlib.error),
        DecompressionBombError,
    ):
        return None
    return Decoded(picture, _turned_size(stored, orientation), orientation)


def fitted(size: Size, box: Size | None) -> Size:
    """Return the size scaled to fit a box, with the same proportions."""
    if box is None:
        return size
    ratio = min(1.0, box[0] / size[0], box[1] / size[1])
    return max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio))


def encode(picture: "Picture", form: Literal["PNG", "JPEG"], quality: int = 0) -> bytes | None:
    """Encode the picture; return None if the format cannot store it."""
    options: dict[str, Any] = {"quality": quality} if form == "JPEG" else {}
    modes = ("RGB", "L") if form == "JPEG" else ("RGB", "RGBA", "L", "LA", "P", "1", "I;16")
    target = BytesIO()
    try:
        ready = picture if picture.mode in modes else picture.convert(_plain_mode(picture, form))
        ready.save(target, form, **options)
    except (OSError, ValueError):
        return None
    return target.getvalue()


class _Source(BytesIO):
    """Data with a limited number of reads: millions of tiny chunks would take too long."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads_left = _MOST_READS_OF_HEADER

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads_left -= 1
        if self.reads_left < 0:
            raise OSError("too many chunks in an image")
        return super().read(size)


def _opened(source: _Source, form: Form) -> "ImageFile":
    """Read the header only."""
    plugin = _PLUGINS[form]
    module = import_module(f"PIL.{plugin}ImagePlugin")
    picture: ImageFile = getattr(module, f"{plugin}ImageFile")(source)
    return picture


def _prepare(picture: "ImageFile", form: Form, data: bytes, box: Size | None) -> bool:
    """Whether the picture can be decoded within the limits; sets a large JPEG to a reduced size."""
    if form == "JPEG":
        return _prepare_jpeg(cast("JpegImageFile", picture), data, box)
    pixels = picture.size[0] * picture.size[1]
    return pixels * (_WEBP_BYTES_PER_PIXEL if form == "WEBP" else 4) <= _MAX_MEMORY


def _prepare_jpeg(picture: "JpegImageFile", data: bytes, box: Size | None) -> bool:
    pixels = picture.size[0] * picture.size[1]
    if pixels > _MAX_JPEG_PIXELS or data.count(b"\xff\xda") > _MAX_JPEG_SCANS:
        return False
    kept = _coefficient_bytes(picture) if _keeps_coefficients(data) else 0
    if kept + pixels * 4 > _MAX_MEMORY:
        orientation = _orientation(picture)
        upright = _turned_size(picture.size, orientation)
        picture.draft(None, _turned_size(fitted(upright, box), orientation))
    return kept + picture.size[0] * picture.size[1] * 4 <= _MAX_MEMORY


def _coefficient_bytes(picture: "JpegImageFile") -> int:
    pixels = picture.size[0] * picture.size[1]
    sampled = [layer[1] * layer[2] for layer in picture.layer]
    widest = max(layer[1] for layer in picture.layer) * max(layer[2] for layer in picture.layer)
    return 2 * pixels * sum(sampled) // widest


def _keeps_coefficients(data: bytes) -> bool:
    """Whether the decoder must keep all coefficients of a JPEG because it has several scans."""
    at, components, progressive = 2, 0, False
    while at + 10 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker == 0xDA:
            return progressive or data[at + 4] < components
        else:
            if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
                progressive, components = marker & 3 == 2, data[at + 9]
            at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return True


def _reduced(picture: "Picture", size: Size) -> "Picture":
    """Return the picture reduced by a whole number, but not below a size.

    Works in strips, since Pillow copies an entire picture that has transparency or a palette.
    """
    from PIL import Image

    width, height = picture.size
    factor = min(width // size[0], height // size[1])
    if factor < 2 or picture.mode not in _REDUCIBLE:
        return picture
    target: Picture | None = None
    for top in range(0, height, _STRIP * factor):
        strip = picture.crop((0, top, width, min(height, top + _STRIP * factor)))
        small = _mixable(strip).reduce(factor)
        target = target or Image.new(small.mode, (small.width, -(-height // factor)))
        target.paste(small, (0, top // factor))
    return target or picture


def _mixable(picture: "Picture") -> "Picture":
    """Return the picture without a palette, since palette colours cannot be mixed."""
    return picture.convert(_plain_mode(picture, "PNG")) if picture.mode in "P1" else picture


def _orientation(picture: "ImageFile") -> int:
    orientation = picture.getexif().get(_ORIENTATION, 1)
    return orientation if orientation in range(1, 9) else 1


def _turned_size(size: Size, orientation: int) -> Size:
    return size[::-1] if orientation >= 5 else size


def _turned(picture: "Picture", orientation: int) -> "Picture":
    if orientation == 1:
        return picture
    from PIL.Image import Transpose

    turns = (
        Transpose.FLIP_LEFT_RIGHT,
        Transpose.ROTATE_180,
        Transpose.FLIP_TOP_BOTTOM,
        Transpose.TRANSPOSE,
        Transpose.ROTATE_270,
        Transpose.TRANSVERSE,
        Transpose.ROTATE_90,
    )
    return picture.transpose(turns[orientation - 2])


def _plain_mode(picture: "Picture", form: str) -> str:
    return "RGB" if form == "JPEG" or not picture.has_transparency_data else "RGBA"
