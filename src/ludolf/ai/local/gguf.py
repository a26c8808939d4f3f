"""Parser for the header of a GGUF file: name, context length, chat template."""

import mmap
import os
import stat
import struct
from functools import lru_cache
from pathlib import Path

import msgspec

from ludolf.base import LudolfError

MAGIC = b"GGUF"
MAX_PAIRS = 1 << 16
MAX_KEY_BYTES = 1 << 16
MAX_TEXT_BYTES = 16 << 20
MAX_NESTING = 4
# Limit on strings and arrays in all arrays of a header; vocabularies have up to 500,000.
MAX_ITEMS = 1 << 22
TEXT, ARRAY = 8, 9
# Type number of a scalar → its struct format.
SCALARS: dict[int, str] = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}

Scalar = int | float | bool | str


class GgufError(LudolfError):
    """A file cannot be used as a GGUF model; the text names the file and the reason."""


class _Broken(Exception):
    """The bytes are not a valid header; the caller adds the file name."""


class GgufHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of the header, as far as present; `values` are all scalars by key."""

    architecture: str
    name: str | None = None
    context_length: int | None = None
    template: str | None = None
    values: dict[str, Scalar] = {}


def read_gguf(path: Path) -> GgufHeader:
    """Read the header of a file; unchanged files are cached.

    Raises:
        GgufError: the file is missing or is not a GGUF file.
    """
    try:
        status = path.stat()
        # Reading a pipe would block, and opening a device can have side effects.
        if not stat.S_ISREG(status.st_mode):
            raise GgufError(f"{path} is not a GGUF file: it is not a regular file")
        return _read(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise GgufError(f"Cannot read {path}: {error.strerror or error}") from error
    except ValueError:
        raise GgufError(f"{path} is not a GGUF file: it is empty") from None
    except _Broken as error:
        raise GgufError(f"{path} is not a usable GGUF file: {error}") from None


@lru_cache(maxsize=256)
def _read(path: Path, size: int, changed: int) -> GgufHeader:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as data:
            return _header(data)
    finally:
        os.close(file)


def _header(data: bytes | mmap.mmap) -> GgufHeader:
    reader = _Reader(data)
    pairs = reader.preamble()
    values: dict[str, Scalar] = {}
    for _ in range(pairs):
        key = reader.text(MAX_KEY_BYTES)
        value = reader.value()
        if value is not None:
            values[key] = value
    return _described(values)


def _described(values: dict[str, Scalar]) -> GgufHeader:
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise _Broken("it does not name an architecture")
    name = values.get("general.name")
    length = values.get(f"{architecture}.context_length")
    template = values.get("tokenizer.chat_template")
    return GgufHeader(
        architecture=architecture,
        name=name if isinstance(name, str) and name else None,
        context_length=length if isinstance(length, int) and length > 0 else None,
        template=template if isinstance(template, str) and template else None,
        values=values,
    )


class _Reader:
    """Reads values from the bytes; never past their end, whatever lengths they claim."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data
        self._size = len(data)
        self._at = 0
        self._items = 0

    def preamble(self) -> int:
        """Read magic, version and counts; return the number of key-value pairs."""
        if self._data[:4] != MAGIC:
            raise _Broken("it does not begin with GGUF")
        self._at = 4
        version = int(self._number("<I"))
        if version not in (2, 3):
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            known = swapped in (2, 3)
            raise _Broken("it is big-endian" if known else f"version {version} is unknown")
        self._number("<Q")  # number of tensors
        pairs = int(self._number("<Q"))
        if pairs > MAX_PAIRS:
            raise _Broken(f"it claims {pairs} entries")
        return pairs

    def value(self) -> Scalar | None:
        """Return the next value; arrays are skipped and give None."""
        kind = int(self._number("<I"))
        if kind == TEXT:
            return self.text(MAX_TEXT_BYTES)
        if kind == ARRAY:
            self._pass_list(MAX_NESTING)
            return None
        if kind not in SCALARS:
            raise _Broken(f"value type {kind} is unknown")
        return self._number(SCALARS[kind])

    def text(self, limit: int) -> str:
        size = int(self._number("<Q"))
        if size > limit:
            raise _Broken(f"a text claims {size} bytes")
        start = self._at
        self._pass(size)
        return self._data[start : self._at].decode("utf-8", "replace")

    def _number(self, form: str) -> int | float:
        try:
            (value,) = struct.unpack_from(form, self._data, self._at)
        except struct.error:
            raise _Broken("it ends in the middle of its header") from None
        self._at += struct.calcsize(form)
        number: int | float = value
        return number

    def _pass(self, size: int) -> None:
        if size > self._size - self._at:
            raise _Broken("it ends in the middle of its header")
        self._at += size

    def _pass_list(self, depth: int) -> None:
        kind, count = int(self._number("<I")), int(self._number("<Q"))
        if kind in SCALARS:
            self._pass(count * struct.calcsize(SCALARS[kind]))
        elif kind == TEXT:
            self._count(count)
            self._pass_texts(count)
        elif kind == ARRAY and depth > 0:
            self._count(count)
            for _ in range(count):
                self._pass_list(depth - 1)
        else:
            raise _Broken(f"a list of value type {kind} is unknown")

    def _count(self, items: int) -> None:
        self._items += items
        if self._items > MAX_ITEMS:
            raise _Broken(f"its lists claim {self._items} items")

    def _pass_texts(self, count: int) -> None:
        # Tokenizers have hundreds of thousands of strings: avoid a call for each.
        unpack, data, at, size = struct.Struct("<Q").unpack_from, self._data, self._at, self._size
        for _ in range(count):
            if at > size - 8:
                raise _Broken("it ends in the middle of its header")
            at += 8 + unpack(data, at)[0]
        self._at = at
        self._pass(0)
