"""Child program that runs one GGUF file with llama.cpp's server on loopback.

It reads one line of JSON, a `Launch`, answers with one line, and exits when its stdin is closed.
"""

import os
import sys
import threading
from importlib import import_module
from typing import IO, Any

import msgspec

from ludolf.base import Value, dumps

LOOPBACK = "127.0.0.1"
# Memory for cached prompts.
CACHE_MIB = 1024
ERRORS_ONLY = 1
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


class Launch(Value):
    """Parameters of the child. Missing numbers leave the choice to llama.cpp."""

    model: str
    key: str
    context: int
    parent: int
    template: str | None = None
    threads: int | None = None
    gpu_layers: int | None = None


class RuntimeAnswer(Value):
    """Reply to an order: the address of the server, or an error."""

    url: str | None = None
    error: str | None = None


def main() -> None:
    """Serve until the parent process ends."""
    out = _own_stdout()
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Launch)
    _die_with(order.parent)
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        server = serve(order)
    except (ImportError, RuntimeError, ValueError, OSError) as error:
        _send(out, RuntimeAnswer(error=str(error)))
        os._exit(1)
    _send(out, RuntimeAnswer(url=server.listening_address))
    threading.Event().wait()


def serve(order: Launch) -> Any:
    """Load the model, start to listen, and return the server."""
    return _library().Server(parameters(order))


def parameters(order: Launch) -> Any:
    """Convert an order to llama.cpp's parameters."""
    params = _library().CommonParams()
    params.model.path = order.model
    params.hostnames = [LOOPBACK]
    params.port = 0
    params.api_keys = [order.key]
    params.n_ctx = order.context
    params.n_parallel = 1
    params.use_jinja = True
    params.warmup = False
    params.ui = False
    params.cache_ram_mib = CACHE_MIB
    params.verbosity = ERRORS_ONLY
    if order.template is not None:
        params.chat_template = order.template
    if order.threads is not None:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order.threads
    if order.gpu_layers is not None:
        params.n_gpu_layers = order.gpu_layers
    return params


def _library() -> Any:
    return import_module("xllamacpp")


def _own_stdout() -> IO[bytes]:
    """Return the original stdout for the parent; redirect other writers of stdout to stderr."""
    stdout = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return stdout


def _send(out: IO[bytes], reply: RuntimeAnswer) -> None:
    out.write(dumps(reply) + b"\n")


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def _die_with(parent: int) -> None:
    """End this process with its parent while llama.cpp loads and no other thread runs (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


if __name__ == "__main__":
    main()
