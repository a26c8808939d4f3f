"""Models implemented in Python: an async generator function, or a provider object."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any, Protocol

from ludolf.ai.access import Access
from ludolf.ai.messages import Thinking, ToolCall, Usage
from ludolf.ai.models import Model
from ludolf.ai.provider import Provider
from ludolf.base import ConfigError, dumps
from ludolf.config.models.models_file import make_model
from ludolf.engine.models import Models
from ludolf.extensions.providers import ModelContext, ModelOptions, backend_registration
from ludolf.functions.content import BadAnswer
from ludolf.functions.isolation import Failed

# Parts of an answer: text deltas, thinking, complete tool calls and, at the end, the usage.
BackendOutput = str | Thinking | ToolCall | Usage
Speaker = Callable[[ModelContext], AsyncIterator[BackendOutput]]


class ModelBackend(Protocol):
    """A provider object: an id, a list of models and a function that streams answers.

    >>> from ludolf import sync
    >>> class Echo:
    ...     id = "echo"
    ...     def models(self):
    ...         return ["plain", "loud"]
    ...     async def stream(self, model, context, options):
    ...         text = context.messages[-1].content[0].text
    ...         yield text.upper() if model.id == "loud" else text
    >>> with sync.create_session(model=Echo()) as session:
    ...     _ = session.set_model("echo/loud")
    ...     session.prompt("hello").text
    'HELLO'
    """

    id: str

    def models(self) -> Iterable[Any]:
        """Return the models: ids, or dicts with the keys of models.json."""

    def stream(
        self, model: Model, context: ModelContext, options: ModelOptions
    ) -> AsyncIterator[Any]:
        """Yield text, or events of an answer as dicts (`{"type": "text_delta", ...}`)."""


class SpeakerBackend:
    """Provider with one model, implemented by an async generator function."""

    def __init__(self, speaker: Speaker) -> None:
        self.id = "python"
        self._speaker = speaker
        self._name = getattr(speaker, "__name__", "model")

    def models(self) -> list[dict[str, Any]]:
        return [{"id": self._name, "input": ["text", "image"]}]

    async def stream(
        self, model: Model, context: ModelContext, options: ModelOptions
    ) -> AsyncIterator[Any]:
        usage: Usage | None = None
        count = 0
        pieces = self._speaker(context)
        if not isinstance(pieces, AsyncIterable):
            raise ConfigError(
                f"The model {self._name} returned {type(pieces).__name__}. "
                f"Write `async def {self._name}(context):` and yield the answer."
            )
        async for piece in pieces:
            if isinstance(piece, Usage):
                usage = piece
                continue
            for event in _events(piece, count):
                yield event
            count += not isinstance(piece, str)
        yield {"type": "done", **({"usage": usage} if usage else {})}


def _events(piece: BackendOutput, count: int) -> list[Any]:
    if isinstance(piece, Thinking):
        return [
            {"type": "thinking_start"},
            {"type": "thinking_delta", "delta": piece.thinking},
            {"type": "thinking_end"},
        ]
    if isinstance(piece, ToolCall):
        call_id = piece.id or f"call_{count + 1}"
        return [
            {"type": "toolcall_start", "id": call_id, "toolName": piece.name},
            {"type": "toolcall_delta", "delta": dumps(piece.arguments).decode()},
            {"type": "toolcall_end"},
        ]
    return [piece]


def check_speaker(function: Any) -> Speaker:
    """Return the function that answers as a model.

    Raises:
        ConfigError: it is not an async generator function that takes the context.
    """
    import inspect

    name = getattr(function, "__name__", type(function).__name__)
    form = f"Write `async def {name}(context):` and yield the answer."
    if isinstance(function, type):
        raise ConfigError(f"model is the class {name}. Pass an instance: model={name}().")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigError(f"The model {name} is not an async generator function. {form}")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        text = f"The model {name} must take one argument, the context: {error}. {form}"
        raise ConfigError(text) from error
    except ValueError:
        pass  # a function of native code has no signature to check
    speaker: Speaker = function
    return speaker


def make_known(models: Models, author: Any) -> str:
    """Register the backend's models; returns the pattern that chooses its first one.

    Raises:
        ConfigError: the object is not a backend, or has no models.
    """
    try:
        registration = backend_registration(author)
    except (BadAnswer, Failed) as error:
        raise ConfigError(f"This object cannot be used as a model: {error}") from error
    name, entry = registration.name, registration.entry
    backend_models = [make_model(name, entry, each, None) for each in entry.models or ()]
    if not backend_models or registration.backend is None:
        raise ConfigError(f"The provider {name} has no models.")
    provider: Provider = registration.backend
    models.providers.register(provider)
    models.registry.register(backend_models, Access())
    return backend_models[0].key
