"""Ask the model for summaries, with retries of their own."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.messages import AssistantMessage, Text, Usage, UserMessage, text_of
from ludolf.ai.provider import ModelAnswer, Request
from ludolf.base import LudolfError, now_ms, uuid7
from ludolf.engine.run.requests import Attempts, Requests
from ludolf.protocol.events import (
    CompactionReason,
    SummaryRetryFinished,
    SummaryRetryScheduled,
    SummaryRetryStart,
    SummarySource,
)
from ludolf.session.context import CompactionSettings

if TYPE_CHECKING:
    from ludolf.session.compaction import Preparation


class SummaryFailed(LudolfError):
    """The model wrote no usable summary; the text has the reason."""


class Summaries:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def for_compaction(
        self,
        prepared: "Preparation",
        settings: CompactionSettings,
        reason: CompactionReason,
        instructions: str | None,
    ) -> tuple[str | None, str | None, Usage | None]:
        """Summarise the history, and the first part of a turn that is cut in two.

        Returns both summaries, None for one that is not needed, and what they cost together.

        Raises:
            SummaryFailed: one of the two failed; neither is used.
        """
        from ludolf.ai.usage import add_usage
        from ludolf.session import summary_text as words
        from ludolf.session.compaction import summary_limit

        limit = self._requests.models.require().max_tokens
        history = prefix = usage = None
        if prepared.history:
            text = words.history_request(prepared.history, prepared.previous_summary, instructions)
            answer = await self.ask(text, summary_limit(settings, limit), reason)
            history, usage = text_of(answer.content), answer.usage
        if prepared.prefix:
            text = words.prefix_request(prepared.prefix)
            answer = await self.ask(text, summary_limit(settings, limit, prefix=True), reason)
            prefix = text_of(answer.content)
            usage = answer.usage if usage is None else add_usage(usage, answer.usage)
        return history, prefix, usage

    async def ask(
        self,
        text: str,
        limit: int,
        reason: CompactionReason | None,
        *,
        source: SummarySource = "branchSummary",
    ) -> AssistantMessage:
        """Ask for one summary. `reason` is that of a compaction; None for other sources.

        Raises:
            SummaryFailed: an error, a cut answer, or a tool call instead of one.
        """
        start = SummaryRetryStart(source=source)
        if reason is not None:
            start = SummaryRetryStart(source="compaction", reason=reason)
        message = (await self._attempts(await self._request(text, limit), start)).message
        if message.stop_reason == "error":
            raise SummaryFailed(f"Summarization failed: {message.error_message}")
        if message.stop_reason == "length":
            raise SummaryFailed("Summarization failed: the summary hit the output token limit")
        if message.tool_calls or not text_of(message.content).strip():
            raise SummaryFailed("Summarization failed: the model did not write a summary")
        return message

    async def _request(self, text: str, limit: int) -> Request:
        from ludolf.session.summary_text import SYSTEM_PROMPT

        question = UserMessage(content=(Text(text=text),), timestamp=now_ms())
        return structs.replace(
            await self._requests.empty(),
            system=SYSTEM_PROMPT,
            messages=(question,),
            max_tokens=limit,
            session_id=uuid7(),
            cache="none",
        )

    async def _attempts(self, request: Request, start: SummaryRetryStart) -> ModelAnswer:
        from ludolf.ai.stream import respond

        hub, attempts = self._requests.conversation.hub, Attempts(self._requests.workspace)
        while True:
            answer = await respond(request, Draft(request.model), _ignore)
            if not attempts.wants(answer):
                if attempts.count:
                    await hub.emit(SummaryRetryFinished())
                return answer
            scheduled = attempts.schedule(answer, SummaryRetryScheduled)
            await hub.emit(scheduled)
            await asyncio.sleep(scheduled.delay_ms / 1000)
            await hub.emit(start)


async def _ignore(events: Iterable[StreamEvent]) -> None:
    """Consume the pieces of a summary, which is not streamed to the host."""
    for _ in events:
        pass
