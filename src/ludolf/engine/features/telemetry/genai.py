"""Spans and metrics by the GenAI conventions; the only file that knows opentelemetry-util-genai.

The library is beta. `_attach_to_context` and the start of the monotonic clock are private there:
spans that are driven by events need both, so that they neither become the current span of a task
nor measure the time at which an event was read.
"""

import timeit
from collections.abc import Mapping, Sequence
from typing import Any, cast

from opentelemetry.context import Context
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names
from opentelemetry.semconv._incubating.attributes.http_attributes import HTTP_RESPONSE_STATUS_CODE
from opentelemetry.semconv._incubating.attributes.mcp_attributes import MCP_METHOD_NAME
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Tracer,
    TracerProvider,
    set_span_in_context,
)
from opentelemetry.trace.status import Status, StatusCode
from opentelemetry.util.genai._inference_invocation import _GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.invocation import (
    GenAIInvocation,
    InferenceInvocation,
    LocalAgentInvocation,
    ToolInvocation,
)
from opentelemetry.util.genai.types import (
    ContentCapturingMode,
    Error,
    InputMessage,
    MessagePart,
    OutputMessage,
    ReasoningPart,
    TextPart,
    ToolCallRequestPart,
)

from ludolf import __version__
from ludolf.ai.messages import Usage
from ludolf.engine.features.telemetry.content import ContentPart
from ludolf.engine.features.telemetry.items import RequestSent, RunStarted
from ludolf.engine.features.telemetry.providers import TelemetryProviders

SCOPE = "ludolf"
_Values = names.GenAiProviderNameValues
# Our names of providers for which the convention has another one.
_PROVIDERS: Mapping[str, str] = {
    "amazon-bedrock": _Values.AWS_BEDROCK.value,
    "azure-openai-responses": _Values.AZURE_AI_OPENAI.value,
    "google": _Values.GCP_GEMINI.value,
    "google-vertex": _Values.GCP_VERTEX_AI.value,
    "mistral": _Values.MISTRAL_AI.value,
    "openai-codex": _Values.OPENAI.value,
    "xai": _Values.X_AI.value,
}
_FINISH = {"stop": "stop", "length": "length", "toolUse": "tool_call", "error": "error"}
CUSTOM_TOOL = "custom"


def provider_name(provider: str) -> str:
    """Return the name of the convention for a provider; others keep ours."""
    return _PROVIDERS.get(provider, provider)


def model_labels(provider: str, model: str) -> dict[str, str]:
    """Return the attributes that name a model on metrics."""
    return {
        names.GEN_AI_PROVIDER_NAME: provider_name(provider),
        names.GEN_AI_REQUEST_MODEL: model,
    }


class OpenSpan:
    """A span that has begun. Its `attributes` are set when it ends."""

    def __init__(self, invocation: GenAIInvocation, began: int) -> None:
        self._invocation = invocation
        self.began = began

    @property
    def attributes(self) -> dict[str, Any]:
        return self._invocation.attributes

    @property
    def context(self) -> Context:
        return self._invocation.context

    def link(self, target: SpanContext) -> None:
        self._invocation.span.add_link(target)

    def end(self, at: int, error: str | None = None) -> None:
        """End the span at a time, with an error of this kind if it failed."""
        invocation = self._invocation
        invocation.span = cast(Span, _EndsAt(invocation.span, at))
        invocation._monotonic_start_s = timeit.default_timer() - max(0, at - self.began) / 1e9
        if error is None:
            invocation.stop()
        else:
            invocation.fail(Error(message=error, type=error))


class AgentSpan(OpenSpan):
    """One prompt, from its start until nothing follows."""

    def __init__(self, invocation: LocalAgentInvocation, began: int) -> None:
        super().__init__(invocation, began)
        self._agent = invocation

    def identify(self, agent_id: str | None) -> None:
        self.attributes[names.GEN_AI_AGENT_VERSION] = __version__
        if agent_id is not None:
            self.attributes[names.GEN_AI_AGENT_ID] = agent_id

    def ask(self, parts: Sequence[ContentPart]) -> None:
        """Add a message of the user, if content is exported."""
        if parts:
            self._agent.input_messages.append(InputMessage("user", _parts(parts)))

    def use(self, usage: Usage) -> None:
        """Set the sum of all answers."""
        self._agent.input_tokens = usage.input + usage.cache_read + usage.cache_write
        self._agent.output_tokens = usage.output
        if usage.cache_read:
            self.attributes[names.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS] = usage.cache_read
        if usage.cache_write:
            self.attributes[_GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS] = usage.cache_write


class ChatSpan(OpenSpan):
    """One request to a model."""

    def __init__(self, invocation: InferenceInvocation, began: int) -> None:
        super().__init__(invocation, began)
        self._chat = invocation

    def start_answer(self, at: int) -> None:
        """The first chunk has arrived."""
        self._chat.ttfc_seconds = max(0, at - self.began) / 1e9

    def use(self, usage: Usage) -> None:
        self._chat.input_tokens = usage.input + usage.cache_read + usage.cache_write
        self._chat.output_tokens = usage.output
        self._chat.cache_read_input_tokens = usage.cache_read
        self._chat.cache_write_input_tokens = usage.cache_write
        self._chat.thinking_tokens = usage.reasoning or None

    def answer(self, response_id: str | None, model: str, stop_reason: str) -> None:
        self._chat.response_id = response_id
        self._chat.response_model_name = model
        reason = _FINISH.get(stop_reason)
        self._chat.finish_reasons = None if reason is None else [reason]

    def set_status(self, status: int) -> None:
        self.attributes[HTTP_RESPONSE_STATUS_CODE] = status

    def mark_compacted(self) -> None:
        """The request is the first one after a compaction."""
        self._chat.conversation_compacted = True

    def instruct(self, system: Sequence[ContentPart]) -> None:
        self._chat.system_instruction = [TextPart(content=part.text) for part in system]

    def say(self, parts: Sequence[ContentPart]) -> None:
        """Add the answer, if content is exported."""
        if parts:
            self._chat.output_messages.append(OutputMessage("assistant", _parts(parts)))


class ToolSpan(OpenSpan):
    """One call of a tool."""

    def __init__(self, invocation: ToolInvocation, began: int) -> None:
        super().__init__(invocation, began)
        self._tool = invocation

    def give(self, arguments: str | None) -> None:
        self._tool.arguments = arguments

    def take(self, result: str | None) -> None:
        self._tool.tool_result = result


class PlainSpan:
    """A span without a convention of its own, such as a compaction."""

    def __init__(self, span: Span, context: Context) -> None:
        self._span = span
        self.context = context
        self.attributes: dict[str, Any] = {}

    def end(self, at: int, error: str | None = None) -> None:
        self._span.set_attributes(self.attributes)
        if error is not None:
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end(at)


class GenAiSpans:
    """Starts spans. `content` says where the library puts content: on spans, on events."""

    def __init__(self, providers: TelemetryProviders, content: str) -> None:
        stamped = _StampedProvider(providers.tracer)
        self._handler = TelemetryHandler(
            tracer_provider=stamped,
            meter_provider=providers.meter,
            logger_provider=providers.logger,
            instrumentation_scope_name=SCOPE,
            instrumentation_scope_version=__version__,
        )
        # The library reads the environment of the process, which is not that of the session.
        self._handler._content_capturing_mode = ContentCapturingMode[content.upper()]
        self._tracer = stamped.tracer

    def agent(
        self, run: RunStarted, at: int, parent: Context, links: Sequence[SpanContext]
    ) -> AgentSpan:
        self._tracer.stamp(at, links)
        invocation = self._handler.invoke_local_agent(
            agent_name=run.agent,
            request_model=run.model,
            conversation_id=run.session_id,
            context=parent,
            _attach_to_context=False,
        )
        span = AgentSpan(invocation, at)
        span.identify(run.agent_id)
        return span

    def chat(self, request: RequestSent, at: int, parent: Context) -> ChatSpan:
        self._tracer.stamp(at)
        invocation = self._handler.inference(
            provider_name(request.provider),
            request_model=request.model,
            server_address=request.address,
            server_port=request.port,
            conversation_id=request.session_id,
            context=parent,
            _attach_to_context=False,
        )
        invocation.request_stream = True
        if request.level != "off":
            invocation.reasoning_level = request.level
        return ChatSpan(invocation, at)

    def tool(self, name: str, call_id: str, at: int, parent: Context, *, kind: str) -> ToolSpan:
        """`kind` is `builtin`, `mcp` or `custom`; metrics name the tools of the first two."""
        self._tracer.stamp(at)
        invocation = self._handler.tool(
            name,
            tool_type="extension" if kind == "mcp" else "function",
            context=parent,
            _attach_to_context=False,
        )
        invocation.tool_call_id = call_id
        if kind == "custom":
            invocation.metric_attributes[names.GEN_AI_TOOL_NAME] = CUSTOM_TOOL
        if kind == "mcp":
            invocation.attributes[MCP_METHOD_NAME] = "tools/call"
        return ToolSpan(invocation, at)

    def plain(self, name: str, at: int, parent: Context) -> PlainSpan:
        self._tracer.stamp(at)
        span = self._tracer.start_span(name, parent, SpanKind.INTERNAL)
        return PlainSpan(span, set_span_in_context(span, parent))

    def workflow(self, name: str, at: int, parent: Context) -> OpenSpan:
        self._tracer.stamp(at)
        invocation = self._handler.workflow(name, context=parent, _attach_to_context=False)
        return OpenSpan(invocation, at)


def _parts(parts: Sequence[ContentPart]) -> list[MessagePart]:
    made: list[MessagePart] = []
    for part in parts:
        if part.kind == "tool_call":
            made.append(ToolCallRequestPart(part.text or None, part.name, part.id))
        elif part.kind == "reasoning":
            made.append(ReasoningPart(content=part.text))
        else:
            made.append(TextPart(content=part.text))
    return made


class _EndsAt:
    """A span whose end the library calls without a time."""

    def __init__(self, span: Span, at: int) -> None:
        self._span = span
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._span, name)

    def end(self) -> None:
        self._span.end(self._at)


class _StampedTracer(Tracer):
    """Gives the next span the start and the links that were set before."""

    def __init__(self, inner: Tracer) -> None:
        self._inner = inner
        self.stamp(None)

    def stamp(self, at: int | None, links: Sequence[SpanContext] = ()) -> None:
        self._at = at
        self._links = [Link(target) for target in links]

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Any = None,
        *_: Any,
        **__: Any,
    ) -> Span:
        return self._inner.start_span(
            name, context, kind, attributes, self._links, start_time=self._at
        )

    def start_as_current_span(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError("spans of events are never the current span")


class _StampedProvider(TracerProvider):
    def __init__(self, inner: TracerProvider) -> None:
        self._inner = inner
        self.tracer = _StampedTracer(inner.get_tracer(SCOPE, __version__))

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Any = None,
    ) -> Tracer:
        self.tracer._inner = self._inner.get_tracer(
            instrumenting_module_name, instrumenting_library_version, schema_url, attributes
        )
        return self.tracer
