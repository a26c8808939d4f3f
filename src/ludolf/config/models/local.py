"""Discover models of local servers and GGUF files."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from ludolf.ai.local import FILES, MISSING, SERVERS
from ludolf.ai.models import Model
from ludolf.base import ConfigError, LudolfError

if TYPE_CHECKING:
    from ludolf.ai.local.servers import RunningServer, ServerAddress
    from ludolf.config.models.registry import ModelRegistry

VARIABLE = "LUDOLF_LOCAL_SERVERS"
FRESH_SECONDS = 5.0
# Context window of a model until its server reports one.
UNSEEN_CONTEXT = 128_000
_OFF = ("0", "false", "no", "off")
_ON = ("", "1", "true", "yes", "on")


class LocalModels:
    """Discover local models and add them to the registry; scans only on request."""

    def __init__(self, registry: "ModelRegistry", environ: Mapping[str, str]) -> None:
        self._registry = registry
        self._environ = environ
        self._looked: float | None = None
        self._ranked: tuple[Model, ...] = ()
        self._loaded: set[str] = set()
        self._warned: set[str] = set()
        self._looking = asyncio.Lock()

    # ------------------------------------------------------------ where to look

    @property
    def allowed(self) -> bool:
        """Whether local servers may be scanned."""
        enabled = self._registry.local_servers and self._registry.stand_in is None
        return enabled and self._environ.get(VARIABLE, "").strip().lower() not in _OFF

    def serves(self, provider: str) -> bool:
        """Return whether the models of a provider come from a scan, not from models.json."""
        if provider not in SERVERS or not self.allowed:
            return False
        entry = self._registry.entry(provider)
        return entry is None or not entry.models

    def places(self) -> tuple["ServerAddress", ...]:
        """Return the addresses to scan."""
        from ludolf.ai.local.kinds import base_of
        from ludolf.ai.local.servers import ServerAddress

        if not self.allowed:
            return ()
        configured = self._environ.get(VARIABLE, "").strip()
        if configured.lower() not in _ON:
            urls = [base_of(_with_scheme(url)) for url in configured.replace(",", " ").split()]
            return tuple(ServerAddress(url=url, keys=self._keys(SERVERS)) for url in urls)
        return tuple(self.place(provider) for provider in SERVERS if self.serves(provider))

    def place(self, provider: str) -> "ServerAddress":
        """Return the address of a provider: from models.json, its variable, or the default."""
        from ludolf.ai.local.kinds import KINDS, base_of
        from ludolf.ai.local.servers import OLLAMA_CONTEXT, ServerAddress

        entry = self._registry.entry(provider)
        url = (entry.base_url if entry else None) or self._named(provider) or KINDS[provider].url
        context = self._environ.get("OLLAMA_CONTEXT_LENGTH", "")
        return ServerAddress(
            url=base_of(url),
            provider=provider,
            keys=self._keys((provider,)),
            default_context=int(context) if context.isdecimal() else OLLAMA_CONTEXT,
        )

    def _named(self, provider: str) -> str | None:
        if provider == "ollama":
            return ollama_address(self._environ.get("OLLAMA_HOST", ""))
        if provider == "llama.cpp":
            return _with_scheme(self._environ.get("LLAMA_BASE_URL", "").strip()) or None
        return None

    def _keys(self, providers: Iterable[str]) -> dict[str, str]:
        """Return keys for the scan, without those that need a command."""
        keyring, keys = self._registry.keyring, {}
        for provider in providers:
            entry = self._registry.entry(provider)
            configured = entry.api_key if entry is not None else None
            if keyring.runs_command(provider, configured):
                continue
            access = keyring.access(provider, configured)
            if access is not None and access.key:
                keys[provider] = access.key
        return keys

    # ------------------------------------------------------------ looking

    def is_current(self) -> bool:
        """Return whether the last scan is still valid; does not block."""
        if self._looked is not None and time.monotonic() - self._looked < FRESH_SECONDS:
            return True
        from ludolf.ai.local.servers import someone_listens

        if any(map(someone_listens, self.places())) or can_run_files():
            return False
        self._keep((), ())
        return True

    async def look(self) -> None:
        """Scan all servers concurrently, unless the last scan is less than 5 s old."""
        async with self._looking:
            if not self.is_current():
                await self._scan()

    def look_now(self) -> bool:
        """Scan in a thread, for synchronous callers; return whether there are models."""
        if not self.is_current():
            from threading import Thread

            # A loop may run in this thread, but it serves nothing yet, so blocking it is safe.
            worker = Thread(target=lambda: asyncio.run(self._scan()))
            worker.start()
            worker.join()
        return bool(self._ranked)

    async def _scan(self) -> None:
        from ludolf.ai.local.servers import look_at

        self._keep(await look_at(self.places()), await asyncio.to_thread(self._files))

    def _files(self) -> tuple[Model, ...]:
        if not can_run_files():
            return ()
        from ludolf.ai.local.files import file_models

        return file_models(self._environ)

    def _keep(self, servers: Iterable["RunningServer"], files: tuple[Model, ...]) -> None:
        self._looked = time.monotonic()
        found: dict[str, dict[str, Model]] = {name: {} for name in (*SERVERS, FILES)}
        self._loaded = loaded = set()
        for server in servers:
            if not self.serves(server.provider):
                continue
            for model in server.models:
                found[server.provider].setdefault(model.id, model)
            loaded |= {f"{server.provider}/{name}" for name in server.loaded}
        for model in files:
            found[FILES].setdefault(model.id, model)
        self._registry.set_found({name: models for name, models in found.items() if models})
        seen = [m for name in SERVERS if found[name] for m in self._registry.of_provider(name)]
        self._ranked = tuple(sorted(seen, key=lambda model: model.key not in loaded))

    # ------------------------------------------------------------ choosing

    def best(self) -> Model | None:
        """Return the default local model: one with tool support, loaded ones first.

        A file is never the default: loading it takes minutes and gigabytes.
        """
        return next((model for model in self._ranked if model.uses_tools), None)

    def expected(self, provider: str, model_id: str) -> Model | None:
        """Return a local model by its name, before a scan; None for other providers.

        Raises:
            ConfigError: the model is a file that cannot be used.
        """
        if provider == FILES:
            from ludolf.ai.local.files import file_model

            try:
                model = file_model(model_id, self._environ)
            except LudolfError as error:
                raise ConfigError(str(error)) from error
            if not can_run_files():
                raise ConfigError(MISSING)
            return model
        if not model_id or not self.serves(provider):
            return None
        from ludolf.ai.local.servers import local_model

        url = self.place(provider).url
        return local_model(provider, url, model_id, context=UNSEEN_CONTEXT, thinks=True)

    async def known(self, model: Model) -> Model | None:
        """Return a model as its server reports it; None if server or model is missing."""
        await self.look()
        current = self._registry.find(model.provider, model.id)
        if current is None or model.provider != "ollama" or current.key in self._loaded:
            return current
        from ludolf.ai.local.kinds import base_of
        from ludolf.ai.local.servers import load_ollama

        # Ollama reports the real context window only for loaded models.
        place = structs.replace(self.place("ollama"), url=base_of(current.base_url))
        await load_ollama(place, current.id)
        self._looked = None
        await self.look()
        return self._registry.find(model.provider, model.id)

    def is_loaded(self, model: Model) -> bool:
        """Return whether the server has loaded a model, so that its facts are complete."""
        return model.key in self._loaded

    def remark(self, model: Model) -> str | None:
        """Return a warning about the limits of a model, once for each model."""
        if model.key in self._warned:
            return None
        self._warned.add(model.key)
        if not model.uses_tools:
            return f"{model.key} has no tool support: it can answer, but not read or change files."
        if model.provider == "ollama" and model.context_window < SMALL_CONTEXT:
            return SMALL.format(key=model.key, size=model.context_window)
        return None


SMALL_CONTEXT = 8192
SMALL = (
    "{key} reads only {size} tokens at a time, and Ollama drops the rest without an error. "
    "Start Ollama with OLLAMA_CONTEXT_LENGTH=32768, or set a larger num_ctx for the model."
)


def can_run_files() -> bool:
    """Return whether the extra that runs GGUF files is installed."""
    from importlib.util import find_spec

    return find_spec("xllamacpp") is not None


def ollama_address(host: str) -> str | None:
    """Return the address in OLLAMA_HOST, which may lack scheme, host or port."""
    host = host.strip().strip("\"'").rstrip("/")
    if not host:
        return None
    scheme, sign, rest = host.rpartition("://")
    name, colon, port = rest.rpartition(":")
    if not colon or not port.isdecimal():
        name, port = rest, {"http": "80", "https": "443"}.get(scheme, "11434")
    if name in ("", "0.0.0.0", "[::]"):
        # A server may listen on all addresses; a client must name one.
        name = "127.0.0.1"
    return f"{scheme if sign else 'http'}://{name}:{port}"


def _with_scheme(url: str) -> str:
    return url if not url or "://" in url else f"http://{url}"
