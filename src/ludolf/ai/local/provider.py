"""Provider for GGUF files: llama.cpp runs each in a child process, reached over loopback."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import structs

import ludolf
from ludolf.ai.access import Access
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.transport import Transport
from ludolf.ai.local import FILE_API, MISSING
from ludolf.ai.local.gguf import GgufError, GgufHeader, read_gguf
from ludolf.ai.local.runtime import Launch, RuntimeAnswer
from ludolf.ai.models import Model
from ludolf.ai.provider import Provider, Request
from ludolf.ai.providers.openai.completions import OpenAICompletions
from ludolf.base import LudolfError, dumps, expand_user, user_dir
from ludolf.base.patterns import lazy_pattern

MODULE = "ludolf.ai.local.runtime"
LOAD_SECONDS = 600.0
TAIL_BYTES = 8192
# Variables that llama.cpp and its drivers may need; no keys.
_ENVIRONMENT_NAMES = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT")
_ENVIRONMENT_PREFIXES = ("CUDA_", "GGML_", "HIP_", "HSA_", "LC_", "NVIDIA_", "OMP_", "ROCR_", "VK_")
_LOAD_ERROR = "error loading model: "


class ChildError(LudolfError):
    """The model could not be run; the text is the reason."""


class Child:
    """One process with one model. It ends with `stop`, or when the parent process ends."""

    def __init__(self, process: asyncio.subprocess.Process, order: Launch, log: IO[bytes]) -> None:
        self._process = process
        self._log = log
        self.order = order
        self.url = ""
        self.users = 0

    @classmethod
    async def start(
        cls, order: Launch, environ: Mapping[str, str], seconds: float = LOAD_SECONDS
    ) -> Self:
        """Start the process and wait until the model is loaded; cancelling stops the process.

        Raises:
            ChildError: the model was not loaded.
        """
        from tempfile import TemporaryFile

        log = TemporaryFile()  # noqa: SIM115 - for as long as the child lives
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", MODULE),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=_environment(environ),
                start_new_session=True,
            )
        except BaseException:
            log.close()
            raise
        child = cls(process, order, log)
        try:
            await child._loaded(seconds)
        except BaseException:
            await child.stop()
            raise
        return child

    async def _loaded(self, seconds: float) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(dumps(self.order) + b"\n")
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise ChildError(f"{self.order.model} was not loaded within {seconds:.0f} s") from None
        try:
            reply = msgspec.json.decode(line, type=RuntimeAnswer)
        except msgspec.DecodeError:
            reply = RuntimeAnswer()
        if reply.url is None:
            raise ChildError(
                f"llama.cpp cannot load {self.order.model}: {await self.reason(reply)}"
            )
        self.url = reply.url

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def reason(self, reply: RuntimeAnswer | None = None) -> str:
        """Return why the process ended, in the words of llama.cpp if it printed any."""
        code = await self._process.wait()
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - TAIL_BYTES))
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        errors = [line.partition(_LOAD_ERROR)[2] for line in lines if _LOAD_ERROR in line]
        if errors:
            return errors[-1]
        if reply is not None and reply.error:
            return reply.error
        if code == -9:
            return "it was killed; the machine may be out of memory"
        return lines[-1] if lines else f"it ended with code {code}"

    async def stop(self) -> None:
        """Stop the process and wait for its end."""
        if self.alive:
            self._process.kill()
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._log.close()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    env = {
        name: value
        for name, value in environ.items()
        if name in _ENVIRONMENT_NAMES or name.startswith(_ENVIRONMENT_PREFIXES)
    }
    source = str(Path(ludolf.__file__).parents[1])
    paths = (source, environ.get("PYTHONPATH", ""))
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


OWN, FENCED = "own", "fenced"
_FENCED_FILE = Path(__file__).with_name("fenced.jinja")
# Qwen2.5-Coder's template shows calls with doubled braces, but the model writes a fenced block.
_DOUBLED = lazy_pattern(r"<tool_call>(\\n|\s)*\{\{")


def template_for(header: GgufHeader, wanted: str | None = None) -> str | None:
    """Return the text of the template to use; None selects the file's own.

    `wanted` is "own", "fenced", or the path of a template.

    Raises:
        GgufError: the template cannot be read.
    """
    choice = wanted or (FENCED if needs_fences(header) else OWN)
    if choice == OWN:
        return None
    path = _FENCED_FILE if choice == FENCED else Path(choice)
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GgufError(f"Cannot read the chat template {path}: {error}") from error


def needs_fences(header: GgufHeader) -> bool:
    """Return whether the model writes calls in a form that its own template does not parse."""
    template = header.template or ""
    if header.architecture != "qwen2" or "<|im_start|>" not in template:
        return False
    return _DOUBLED.search(template) is not None


KEY_BYTES = 24
# Address for recorded answers, which need no child process.
NOWHERE = "http://127.0.0.1"


def make(transport: Transport) -> Provider:
    return GgufFiles(transport)


class GgufFiles:
    """One child process per model, shared by all requests; idle ones end for another model."""

    api = FILE_API
    abort_text = OpenAICompletions.abort_text

    def __init__(self, transport: Transport) -> None:
        self._chat = OpenAICompletions(transport)
        self._plays_back = transport.plays_back
        self._children: dict[str, Child] = {}
        self._starting = asyncio.Lock()

    def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        if self._plays_back:
            return self._chat.stream(_at(request, NOWHERE, "none"), draft)
        return self._stream(request, draft)

    async def _stream(
        self, request: Request, draft: Draft
    ) -> AsyncGenerator[Iterable[StreamEvent]]:
        child = await self._child(request.model, request.environ)
        local_request = _at(request, child.url, child.order.key)
        child.users += 1
        try:
            async with aclosing(self._chat.stream(local_request, draft)) as stream:
                async for events in stream:
                    yield events
        except ProviderError as error:
            if child.alive:
                raise
            # A retry would start the process again, and it would fail again.
            text = f"llama.cpp stopped during an answer: {await child.reason()}"
            raise ProviderError(text, kind="bad_request") from error
        finally:
            child.users -= 1

    async def close(self) -> None:
        """Stop all child processes."""
        while self._children:
            _, child = self._children.popitem()
            await child.stop()

    async def _child(self, model: Model, environ: Mapping[str, str]) -> Child:
        async with self._starting:
            child = self._children.get(model.base_url)
            if child is not None and child.alive and child.order.context == model.context_window:
                return child
            await self._make_room(model.base_url)
            try:
                child = await Child.start(_order(model, environ), environ)
            except (ChildError, GgufError) as error:
                raise ProviderError(str(error), kind="bad_request") from error
            self._children[model.base_url] = child
            return child

    async def _make_room(self, path: str) -> None:
        for place, child in tuple(self._children.items()):
            if place == path or not child.users:
                del self._children[place]
                await child.stop()


def _at(request: Request, url: str, key: str) -> Request:
    return structs.replace(request, access=Access(key=key, base_url=f"{url}/v1"))


def _order(model: Model, environ: Mapping[str, str]) -> Launch:
    """Return the order that starts the model's child process.

    Raises:
        ProviderError: the library that runs files is not installed.
        GgufError: the file or its template cannot be read.
    """
    from importlib.util import find_spec

    if find_spec("xllamacpp") is None:
        raise ProviderError(MISSING, kind="bad_request")
    path = Path(unquote(urlsplit(model.base_url).path))
    options: dict[str, Any] = model.compat or {}
    stated = options.get("chatTemplate")
    wanted = expand_user(stated, user_dir(environ)) if isinstance(stated, str) else None
    return Launch(
        model=str(path),
        key=os.urandom(KEY_BYTES).hex(),
        context=model.context_window,
        parent=os.getpid(),
        template=template_for(read_gguf(path), wanted),
        threads=_number(options.get("threads")),
        gpu_layers=_number(options.get("gpuLayers")),
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


if TYPE_CHECKING:
    _: Provider = GgufFiles(Transport({}))
