"""Interface between the agent and a model provider."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ludolf.ai.access import Access, Patience
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ErrorKind
from ludolf.ai.messages import AssistantMessage, Message, OpaqueMessage, ThinkingLevel
from ludolf.ai.models import Model

if TYPE_CHECKING:
    from ludolf.ai.sampling import Sampling

CacheRetention = Literal["none", "short", "long"]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as sent to a model.

    `deferred`: a search declared it in the middle of the conversation. The result of that search
    has `details` with `loaded`, the names of its tools; the first part of its content describes
    them.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    sampling: "Sampling | None" = None
    deferred: bool = False


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a provider for one answer.

    Messages are the session's own objects, so that a provider can cache the form of each and
    convert only new ones. Deferred tools come last, in the order in which they were declared.
    """

    provider: "Provider"
    model: Model
    access: Access
    system: str
    messages: tuple[Message | OpaqueMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    thinking: ThinkingLevel = "off"
    max_tokens: int | None = None
    # Ask for priority processing, if the server supports it.
    fast: bool = False
    thinking_budgets: Mapping[str, int] = {}
    session_id: str = ""
    cache: CacheRetention = "short"
    patience: Patience = Patience()
    max_wait: float = 60.0
    cwd: str = ""
    # The environment of the session; `access.environment` overrides it.
    environ: Mapping[str, str] = {}
    # Called with status and headers when an HTTP server starts to answer.
    on_head: Callable[[int, Mapping[str, str]], None] | None = None


class Provider(Protocol):
    """One API family.

    `stream` yields once when the server starts to answer (an empty iterable is enough), then yields
    the events of each network read. Each iterable is consumed lazily and completely before the next
    is requested, so that the draft is never ahead of the event that is emitted.
    """

    @property
    def api(self) -> str: ...
    @property
    def abort_text(self) -> str:
        """Error text of an aborted answer, in the wording that hosts expect from this API."""

    def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        """Stream one answer into the draft, ending with `draft.stopped`.

        Raises:
            ProviderError: the call failed; the draft keeps the content that has arrived.
        """
        ...


class ProviderWrapper(Provider):
    """A provider that changes requests or answers of another one. Subclasses define `stream`."""

    def __init__(self, inner: Provider) -> None:
        self._inner = inner

    @property
    def api(self) -> str:
        return self._inner.api

    @property
    def abort_text(self) -> str:
        return self._inner.abort_text


class ModelAnswer(msgspec.Struct, frozen=True):
    """Result of a call: the final message, and for failures the kind and the requested delay."""

    message: AssistantMessage
    kind: ErrorKind | Literal["aborted"] | None = None
    retry_after: float | None = None
