"""Hide a key passed on the command line from the process list."""

from collections.abc import Iterator

# Field numbers counted after the name in parentheses, which may contain anything: see proc(5).
_ARG_START, _ARG_END = 45, 46


def hide(secret: str) -> bool:
    """Overwrite a command-line argument with stars; returns False if the system forbids it."""
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
    """Return address and size of this process's command line; None outside Linux."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    except (OSError, ValueError, IndexError):
        return None  # not Linux
    return (start, end - start) if 0 < start < end else None


def _whole_words(words: bytes, needle: bytes) -> Iterator[int]:
    """Yield the offsets where the needle is an argument or the value after an equals sign."""
    at = words.find(needle)
    while at >= 0:
        before, after = words[at - 1 : at], words[at + len(needle) : at + len(needle) + 1]
        if before in (b"\0", b"=") and after in (b"\0", b""):
            yield at
        at = words.find(needle, at + 1)
