"""Detect images by the first bytes of a file."""

# Number of bytes from which the type of a file is detected.
SNIFF_BYTES = 4100
MAX_IMAGE_BYTES = 64 * 1024 * 1024
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def sniff(opening: bytes) -> str | None:
    """Return the MIME type of an image from its first bytes; None if it is not supported."""
    if opening.startswith(b"\xff\xd8\xff"):
        return None if opening[3:4] == b"\xf7" else "image/jpeg"
    if opening.startswith(PNG_SIGNATURE):
        return None if _is_animated_png(opening) else "image/png"
    if opening.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if opening.startswith(b"RIFF") and opening[8:12] == b"WEBP":
        return "image/webp"
    return "image/bmp" if _is_bmp(opening) else None


def _is_animated_png(opening: bytes) -> bool:
    control = opening.find(b"acTL")
    pixels = opening.find(b"IDAT")
    return control >= 0 and (pixels < 0 or control < pixels)


def _is_bmp(opening: bytes) -> bool:
    # Two letters are not enough; the reserved bytes and the header size must match too.
    header = int.from_bytes(opening[14:18], "little")
    return opening.startswith(b"BM") and opening[6:10] == bytes(4) and header in (12, 40, 108, 124)
