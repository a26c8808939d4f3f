"""Headers of responses, and the bytes of a request up to its body."""

import re
from collections.abc import Iterator, Mapping

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FORBIDDEN = re.compile(r"[\r\n\0]")
# Methods that need no Content-Length if there is no body.
_WITHOUT_BODY = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"))
# These describe the bytes that are sent, which only the connection knows.
_OF_MESSAGE = frozenset(("content-length", "transfer-encoding"))


class ResponseHeaders(Mapping[str, str]):
    """Headers by name in any case, in the order received; the first of equal names counts."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self._by_name: dict[str, tuple[str, str]] = {}
        for raw_name, raw_value in pairs:
            name = raw_name.decode("latin-1")
            value = raw_value.strip(b" \t").decode("utf-8", "surrogateescape")
            self._by_name.setdefault(name.lower(), (name, value))

    def __getitem__(self, name: str) -> str:
        return self._by_name[name.lower()][1]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def request_head(
    method: str, target: str, host: str, headers: Mapping[str, str], body: bytes
) -> bytes:
    """Return the request line and the headers.

    Raises:
        ValueError: the method or a header contains characters that would change the request.
    """
    names = {name.lower() for name in headers}
    lines = [] if "host" in names else [("Host", host)]
    lines += [(name, value) for name, value in headers.items() if name.lower() not in _OF_MESSAGE]
    if "accept" not in names:
        lines.append(("Accept", "*/*"))
    if body and "content-type" not in names:
        lines.append(("Content-Type", "application/octet-stream"))
    if body or method not in _WITHOUT_BODY:
        lines.append(("Content-Length", str(len(body))))
    if not _NAME.fullmatch(method):
        raise ValueError("the method contains invalid characters")
    for name, value in lines:
        if not _NAME.fullmatch(name):
            raise ValueError(f"the header name {name!r} contains invalid characters")
        if _FORBIDDEN.search(value):
            raise ValueError(f"the header {name} contains a line break or a null character")
    text = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return f"{method} {target} HTTP/1.1\r\n{text}\r\n".encode()
