"""Where a run asks extensions; each is called only if somebody listens."""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.agent.events import TurnEnd
from ludolf.agent.io import Outcome
from ludolf.agent.tool import Allow, Block, ToolError, ToolOutput
from ludolf.ai.messages import Message, OpaqueMessage, ToolCall
from ludolf.base import CommandError, LudolfError
from ludolf.engine.parts import Parts
from ludolf.protocol.bash import BashResult
from ludolf.protocol.events import BashUpdate, CompactionReason, CompactionResult, EntryAppended
from ludolf.session.entries import (
    Compaction,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    entry_json,
    fields,
)

if TYPE_CHECKING:
    from ludolf.extensions.payloads import Boundary
    from ludolf.extensions.runner import Runner
    from ludolf.session.compaction import Preparation


class Vetoed(LudolfError):
    """An extension does not want it to happen."""


class Hooks:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @property
    def _runner(self) -> "Runner":
        return self._parts.extending.runner

    async def tool_call(self, call: ToolCall, args: Mapping[str, Any]) -> Allow | Block:
        """Raises:
        ToolError: a handler failed, which is a no.
        """
        from ludolf.extensions import points
        from ludolf.functions.isolation import Failed

        try:
            answer = await points.tool_call(self._runner, call.name, call.id, args)
        except Failed as error:
            raise ToolError(str(error)) from error
        if answer.block:
            reason = answer.reason or Block().reason
            return Block(reason, ends_run=answer.terminate)
        return Allow(answer.input)

    async def tool_result(self, call: ToolCall, output: ToolOutput, is_error: bool) -> Outcome:
        from ludolf.extensions import points
        from ludolf.extensions.payloads import ToolReturned

        payload = ToolReturned(
            tool_name=call.name,
            tool_call_id=call.id,
            input=call.arguments,
            content=output.content,
            is_error=is_error,
            details=output.details,
            usage=output.usage,
        )
        changed, failed = await points.tool_result(self._runner, payload, output)
        return Outcome(changed, failed)

    async def message_end(self, message: Message) -> Message:
        from ludolf.extensions import points

        ended = await self._parts.extending.run(points.message_end(self._runner, message))
        return message if ended is None else ended

    async def context(
        self, system: str, messages: tuple[Message | OpaqueMessage, ...]
    ) -> tuple[str, tuple[Message | OpaqueMessage, ...]]:
        from ludolf.extensions import points

        return await points.context(self._runner, system, messages)

    async def turn_end(self, event: TurnEnd) -> None:
        from ludolf.extensions import payloads

        said, *results = self._last_messages(1 + len(event.tool_results)) or (None,)
        payload = payloads.TurnEnd(
            turn_index=self._parts.extending.turn_index,
            message=event.message,
            tool_results=event.tool_results,
            message_entry_id=said,
            tool_result_entry_ids=tuple(one for one in results if one is not None),
            context=self._boundary(),
        )
        final = await self._parts.extending.run(self._runner.transform(payload))
        if final is not None:
            self.commit(final.entries)

    def _last_messages(self, count: int) -> list[str]:
        """The ids of the last entries that are messages, in order."""
        path = reversed(self._parts.session.path_to_leaf())
        found = (entry.id for entry in path if entry.type == "message")
        return list(islice(found, count))[::-1]

    def _boundary(self) -> "Boundary":
        from ludolf.extensions.payloads import Boundary
        from ludolf.extensions.session_view import views

        session = self._parts.session
        return Boundary(
            context_entries=views(session.path_to_leaf()),
            context_messages=tuple(session.context.messages()),
        )

    async def before_settle(self, outcome: Any) -> bool:
        """Whether a handler asks for one more turn before the prompt is over."""
        from ludolf.extensions.payloads import AgentBeforeSettle

        payload = AgentBeforeSettle(outcome=outcome, context=self._boundary())
        asked = self._runner.transform(payload)
        final = await self._parts.extending.run(asked)
        if final is None:
            return False
        self.commit(final.entries)
        return bool(final.continue_)

    async def user_bash(self, command: str, *, exclude: bool) -> "BashResult | None":
        """Raises:
        CommandError: a handler failed, which is a no.
        """
        from ludolf.extensions import points
        from ludolf.extensions.answers import BashAnswer
        from ludolf.extensions.payloads import UserBash
        from ludolf.functions.isolation import Failed, call

        cwd = str(self._parts.home.cwd)
        payload = UserBash(command=command, exclude_from_context=exclude, cwd=cwd)
        try:
            answer = await points.user_bash(self._runner, payload)
            if answer is None:
                return None
            if not isinstance(answer, BashAnswer):
                return await self._run_elsewhere(answer.operations, command, cwd, call)
        except Failed as error:
            raise CommandError(str(error)) from error
        return BashResult(
            output=answer.output,
            exit_code=answer.exit_code,
            cancelled=answer.cancelled,
            truncated=answer.truncated,
            full_output_path=answer.full_output_path,
        )

    async def _run_elsewhere(
        self, operations: Any, command: str, cwd: str, call: Any
    ) -> "BashResult":
        from ludolf.tools.output import OutputTail

        with OutputTail() as tail:

            def on_data(data: bytes | str) -> None:
                text = tail.feed(data.encode() if isinstance(data, str) else data)
                self._parts.hub.post(BashUpdate(delta=text))

            code = await call(operations.exec, command, cwd, on_data)
            tail.finish()
            shown = tail.tail()
            return BashResult(
                output=shown.content,
                exit_code=code if isinstance(code, int) else None,
                cancelled=False,
                truncated=shown.truncated,
                full_output_path=tail.full_output_path,
            )

    async def before_compact(
        self,
        prepared: "Preparation",
        reason: CompactionReason,
        instructions: str | None,
        *,
        will_retry: bool,
    ) -> Compaction | None:
        """The entry, if an extension made the summary.

        Raises:
            Vetoed: an extension does not want it.
        """
        from ludolf.extensions import points
        from ludolf.extensions.payloads import SessionBeforeCompact, compaction_plan
        from ludolf.extensions.session_view import views

        payload = SessionBeforeCompact(
            preparation=compaction_plan(prepared),
            branch_entries=views(self._parts.session.path_to_leaf()),
            custom_instructions=instructions,
            reason=reason,
            will_retry=will_retry,
        )
        answer = await points.before_compact(self._runner, payload)
        if answer.cancel:
            raise Vetoed
        made = answer.compaction
        if made is None:
            return None
        return Compaction(
            summary=made.summary,
            first_kept_entry_id=made.first_kept_entry_id,
            tokens_before=made.tokens_before,
            details=made.details,
            usage=made.usage,
            from_hook=True,
        )

    async def compacted(
        self,
        reason: CompactionReason,
        result: CompactionResult | None,
        *,
        aborted: bool,
        will_retry: bool,
        error: str | None,
    ) -> None:
        """Tell how a compaction ended."""
        from ludolf.extensions import payloads
        from ludolf.extensions.session_view import EntryView

        if result is None:
            failed = payloads.SessionCompactFailed(
                reason=reason, aborted=aborted, will_retry=will_retry, error_message=error
            )
            await self._parts.extending.run(self._runner.emit(failed))
            return
        entry = self._parts.session.path_to_leaf()[-1]
        done = payloads.SessionCompact(
            compaction_entry=EntryView(entry),
            from_extension=bool(fields(entry).get("fromHook")),
            reason=reason,
            will_retry=will_retry,
        )
        await self._parts.extending.run(self._runner.emit(done))

    def commit(self, drafts: tuple[Any, ...]) -> None:
        """Store what handlers asked to be stored."""
        for draft in drafts:
            entry = self._store(draft)
            if entry is not None:
                self._parts.hub.post(EntryAppended(entry=msgspec.Raw(entry_json(entry))))

    def _store(self, draft: Any) -> Entry | None:
        from ludolf.extensions import answers

        session = self._parts.session
        match draft:
            case answers.CustomDraft():
                return session.append(CustomEntry(custom_type=draft.custom_type, data=draft.data))
            case answers.CustomMessageDraft():
                return session.append(
                    CustomMessageEntry(
                        custom_type=draft.custom_type,
                        content=draft.content,
                        display=draft.display,
                        details=draft.details,
                    )
                )
            case answers.CompactionDraft():
                return session.append(
                    Compaction(
                        summary=draft.summary,
                        first_kept_entry_id=draft.first_kept_entry_id,
                        tokens_before=draft.tokens_before,
                        details=draft.details,
                        usage=draft.usage,
                        from_hook=True,
                    )
                )
            case answers.ContextEditDraft() if draft.replacement is None:
                session.omit(draft.target_id)
            case _:
                text = "context_edit can only take an entry out of the context"
                self._parts.extending.report("<boundary>", "context_edit", text)
        return None
