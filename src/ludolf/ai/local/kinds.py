"""Local model servers and their error texts."""

import re

import msgspec

from ludolf.base.patterns import lazy_pattern


class ServerKind(msgspec.Struct, frozen=True):
    """A kind of server: `url` is its default address, `start` the hint how to start it."""

    title: str
    url: str
    start: str


KINDS: dict[str, ServerKind] = {
    "ollama": ServerKind("Ollama", "http://127.0.0.1:11434", 'Start it with "ollama serve".'),
    "llama.cpp": ServerKind(
        "the llama.cpp server",
        "http://127.0.0.1:8080",
        'Start it with "llama-server -m MODEL.gguf --jinja", or set LLAMA_BASE_URL.',
    ),
    "lmstudio": ServerKind(
        "LM Studio", "http://127.0.0.1:1234", 'Start it with "lms server start".'
    ),
    "vllm": ServerKind("vLLM", "http://127.0.0.1:8000", 'Start it with "vllm serve MODEL".'),
}
_UNREACHED = lazy_pattern(r"^Connection error: ")
_MISSING = lazy_pattern(r"^404 .*\bmodel\b", re.I | re.S)
_TOOLS_OFF = lazy_pattern(r"enable-auto-tool-choice|requires --jinja")


def base_of(url: str) -> str:
    """Return the address of a server without the path of its OpenAI API."""
    return url.strip().rstrip("/").removesuffix("/v1").rstrip("/")


def explain(provider: str, url: str, model_id: str, text: str) -> str:
    """Add the next step to a server's error text; unchanged if there is nothing to add."""
    kind = KINDS.get(provider)
    if kind is None:
        return text
    if _UNREACHED.search(text):
        return f"Cannot reach {kind.title} at {base_of(url)}. {kind.start}"
    if _MISSING.search(text):
        return f"{text}\n{_how_to_get(provider, kind, model_id)}"
    if _TOOLS_OFF.search(text):
        return f"{text}\nRestart {kind.title} with tool calls switched on."
    return text


def _how_to_get(provider: str, kind: ServerKind, model_id: str) -> str:
    if provider == "ollama":
        return f'Get it with "ollama pull {model_id}".'
    if provider == "lmstudio":
        return f'Get it with "lms get {model_id}", or load it in the app.'
    return f"See what {kind.title} serves with `ludolf models list {provider}`."
