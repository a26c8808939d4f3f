"""The TLS settings of connections to servers and proxies."""

import asyncio
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext

_lock = threading.Lock()
# By the variables that name other authorities than those of the system.
_contexts: "dict[tuple[str | None, ...], SSLContext]" = {}


def tls_context() -> "asyncio.Future[SSLContext]":
    """Return the context of all connections of the process; it verifies certificates and names.

    It trusts the authorities of the system, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    Reading them takes some 25 ms, so a thread does it, once.
    """
    loop = asyncio.get_running_loop()
    known = _contexts.get(_variables())
    if known is None:
        return loop.run_in_executor(None, _make_context)
    ready: asyncio.Future[SSLContext] = loop.create_future()
    ready.set_result(known)
    return ready


def _make_context() -> "SSLContext":
    import ssl

    with _lock:
        context = _contexts.get(_variables())
        if context is None:
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            _contexts[_variables()] = context
        return context


def _variables() -> tuple[str | None, ...]:
    return os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
