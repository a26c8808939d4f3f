"""Keeps a key that was given on the command line out of the list of processes."""

from collections.abc import Iterator

# Counted from behind the name in parentheses, which may hold anything: see proc(5).
_ARG_START, _ARG_END = 45, 46


def hide(secret: str) -> bool:
    """Write stars over a word of our own command line; False where that cannot be done."""
    place = _argument_memory()
    if place is None or not secret:
        return False
    import ctypes

    start, size = place
    words = ctypes.string_at(start, size)
    needle = secret.encode("utf-8", "surrogateescape")
    for at in _whole_words(words, needle):
        ctypes.memset(start + at, ord("*"), len(needle))
    return True


def _argument_memory() -> tuple[int, int] | None:
    """Where the kernel reads the command line of this process."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    except (OSError, ValueError, IndexError):
        return None  # not Linux
    return (start, end - start) if 0 < start < end else None


def _whole_words(words: bytes, needle: bytes) -> Iterator[int]:
    """Where it is an argument, or the value of one behind an equals sign."""
    at = words.find(needle)
    while at >= 0:
        before, after = words[at - 1 : at], words[at + len(needle) : at + len(needle) + 1]
        if before in (b"\0", b"=") and after in (b"\0", b""):
            yield at
        at = words.find(needle, at + 1)
