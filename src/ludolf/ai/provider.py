"""The seam between the agent and a model: a request goes in, pieces of an answer come out."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from ludolf.ai.access import Access
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ErrorKind
from ludolf.ai.http.timeouts import Patience
from ludolf.ai.messages import AssistantMessage, Message, OpaqueMessage, ThinkingLevel
from ludolf.ai.models import Model
from ludolf.ai.strict_schema import Sampling


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    sampling: Sampling | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """All that a provider needs for one answer. Messages are the session's own objects, so that
    a provider may keep the form it made of each and pay only for new ones."""

    provider: "Provider"
    model: Model
    access: Access
    system: str
    messages: tuple[Message | OpaqueMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    thinking: ThinkingLevel = "off"
    max_tokens: int | None = None
    # Wanted sooner than others, where the server has a way to ask for that.
    fast: bool = False
    thinking_budgets: Mapping[str, int] = {}
    session_id: str = ""
    cache: Literal["none", "short", "long"] = "short"
    patience: Patience = Patience()
    max_wait: float = 60.0
    cwd: str = ""


class Provider(Protocol):
    """One API family.

    `stream` yields once as soon as the server has begun to answer (an empty iterable will do), then
    for each read from the network the events it brought. An iterable is consumed lazily and fully,
    before the next is asked for, so the draft never runs ahead of the event being told.
    """

    @property
    def api(self) -> str: ...
    @property
    def abort_text(self) -> str:
        """The error text of an answer that was aborted, in the words hosts know from this API."""

    def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        """Stream one answer into the draft, ending with `draft.stopped`.

        Raises:
            ProviderError: the call failed; what has arrived stays in the draft.
        """
        ...


class Answer(msgspec.Struct, frozen=True):
    """How a call ended: the final message, and for failures what kind and which wait was asked."""

    message: AssistantMessage
    kind: ErrorKind | Literal["aborted"] | None = None
    retry_after: float | None = None
