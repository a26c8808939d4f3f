"""Extensions of the current session as a feature of the engine."""

import asyncio
from collections.abc import Coroutine, Mapping
from itertools import islice
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import structs

from ludolf.agent.events import MessageUpdate, TurnEnd
from ludolf.agent.io import Outcome
from ludolf.agent.scope import Aborted, Scope
from ludolf.agent.tool import Deny, Tool, ToolFailure
from ludolf.ai.messages import (
    CustomMessage,
    Image,
    Message,
    ThinkingLevel,
    ToolCall,
    UserMessage,
    text_of,
)
from ludolf.ai.models import Model
from ludolf.base import CommandError, dumps, loads
from ludolf.engine.engine import Engine
from ludolf.engine.extension_bridge.drafts import store_draft
from ludolf.engine.extension_bridge.host import EngineHost, report_error
from ludolf.engine.feature import (
    Feature,
    History,
    PromptInput,
    TreeMove,
    Vetoed,
)
from ludolf.extensions import answers, payloads, points
from ludolf.extensions.extensions import Extensions
from ludolf.extensions.hook_events import NAMES, Teller
from ludolf.extensions.runner import HookRunner
from ludolf.extensions.session_view import EntryView, views
from ludolf.functions.isolation import Failed, call
from ludolf.protocol.events import (
    CompactionEnd,
    CompactionReason,
    EntryStored,
    Event,
    ShellOutput,
)
from ludolf.protocol.results import BashResult
from ludolf.session.compaction import Preparation
from ludolf.session.entries import BranchSummaryBody, CompactionBody, Entry, entry_json, fields

T = TypeVar("T")
SHUTDOWN_SECONDS = 1.5
# Handlers of events after an abort share this time: a run has to end.
AFTER_ABORT_SECONDS = 1.0
_PROVIDER_HOOKS = (
    "before_provider_request",
    "before_provider_headers",
    "after_provider_response",
)


class ExtensionBridge(Feature):
    """Calls the handlers of extensions. Without extensions every hook returns at once.

    Extensions are loaded again for each session.
    """

    def __init__(self, engine: Engine, host: EngineHost) -> None:
        self._engine = engine
        self._conversation = engine.conversation
        self._host = host
        self._teller = Teller()
        self._updates: list[payloads.Payload] = []
        self._deadline: float | None = None
        self._extensions: Extensions | None = None

    def _wants(self, name: str) -> bool:
        return self._extensions is not None and self._extensions.runner.wants(name)

    @property
    def _runner(self) -> HookRunner:
        assert self._extensions is not None
        return self._extensions.runner

    # ------------------------------------------------------------ life

    async def attach(self, extensions: Extensions, start: payloads.SessionStart) -> None:
        """Use loaded extensions from now on, and call their `session_start` handlers."""
        self._extensions, self._teller = extensions, Teller()
        if any(map(self._wants, _PROVIDER_HOOKS)):
            self._engine.models.transport.watcher = _ProviderWatch(extensions.runner)
        self._engine.toolset.invalidate()
        extensions.bind(self._host)
        await extensions.runner.emit(start)
        if self._wants("resources_discover"):
            reason: Literal["startup", "reload"]
            reason = "reload" if start.reason == "reload" else "startup"
            cwd = str(self._engine.workspace.cwd)
            payload = payloads.ResourcesDiscover(cwd=cwd, reason=reason)
            discovered = await self._runner.transform(payload)
            self._engine.resources.add(discovered.skill_paths, discovered.prompt_paths)

    async def continue_with(self, then: Any) -> None:
        if self._extensions is not None:
            await self._extensions.continue_with(then)

    async def leave_session(self, reason: str, target: str | None) -> None:
        if self._extensions is None:
            return
        payload: Any = payloads.SessionShutdown(reason=reason, target_session_file=target)  # type: ignore[arg-type]
        # The end of the program does not wait for a handler that hangs; other reasons may ask.
        limit = SHUTDOWN_SECONDS if reason == "quit" else None
        try:
            async with asyncio.timeout(limit):
                await self._runner.emit(payload)
        except TimeoutError:
            self.report("<runtime>", "session_shutdown", f"took longer than {limit:g} s")
        self._host.dismiss_dialogs()
        extensions, self._extensions = self._extensions, None
        await extensions.close()
        self._engine.models.transport.watcher = None
        self._engine.toolset.invalidate()

    def answer_dialog(self, answer: Any) -> None:
        self._host.answer_dialog(answer)

    def disconnect(self) -> None:
        self._host.disconnect()

    def report(self, path: str, event: str, text: str) -> None:
        report_error(self._engine, path, event, text)

    def for_subagent(self, bundles: Any) -> Feature:
        return ParentExtensions(self)

    # ------------------------------------------------------------ waiting for handlers

    async def _run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for handlers; returns None if the run is aborted meanwhile."""
        running = self._engine.runner.scope
        if running is not None and running.aborted:
            return await self._run_after_abort(work)
        self._deadline = None
        with (running or self._engine.work).open() as scope:
            try:
                return await scope.run(work)
            except Aborted:
                return None

    async def _run_after_abort(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Wait for handlers of an aborted run, which share one deadline."""
        scope, loop = Scope(), asyncio.get_running_loop()
        self._deadline = self._deadline or loop.time() + AFTER_ABORT_SECONDS
        timer = loop.call_at(self._deadline, self._cut, scope)
        try:
            return await scope.run(work)
        except Aborted:
            return None
        finally:
            timer.cancel()

    def _cut(self, scope: Scope) -> None:
        self.report("<runtime>", "abort", "a handler was cut: it took too long after an abort")
        scope.abort()

    # ------------------------------------------------------------ events

    async def before_event(self, event: Event) -> None:
        if self._is_handled(event):
            await self._emit(event)

    def after_event(self, event: Event) -> None:
        if self._is_handled(event):
            self._engine.tasks.start(self._emit(event))

    def _is_handled(self, event: Event) -> bool:
        self._teller.note(event)
        name = NAMES.get(type(event))
        return name is not None and self._wants(name)

    async def _emit(self, event: Event) -> None:
        if self._extensions is not None:
            await self._run(self._runner.emit(self._teller.payload(event)))

    def on_update(self, update: MessageUpdate) -> None:
        if self._wants("message_update"):
            self._updates.append(self._teller.payload(update))

    async def flush_updates(self) -> None:
        updates, self._updates = self._updates, []
        for payload in updates:
            if self._extensions is not None:
                await self._run(self._runner.emit(payload))

    def _notify(self, payload: payloads.Payload) -> None:
        """Call handlers from a plain function, in a task of their own."""
        if self._wants(payload.type):
            self._engine.tasks.start(self._runner.emit(payload))

    def on_model(
        self, model: Model, previous: Model | None, source: Literal["set", "cycle"]
    ) -> None:
        self._notify(payloads.ModelSelect(model=model, previous_model=previous, source=source))

    def on_level(self, level: ThinkingLevel, previous: ThinkingLevel) -> None:
        self._notify(payloads.ThinkingLevelSelect(level=level, previous_level=previous))

    # ------------------------------------------------------------ prompts

    def handles_input(self) -> bool:
        return self._wants("input")

    async def before_input(self, prompt: PromptInput) -> PromptInput | None:
        if not self._wants("input"):
            return prompt
        images = tuple(part for part in prompt.extra if isinstance(part, Image))
        others = tuple(part for part in prompt.extra if not isinstance(part, Image))
        payload = payloads.Input(
            text=prompt.text,
            images=images,
            source=prompt.source,
            streaming_behavior=prompt.when_busy,
        )
        changed = await points.user_input(self._runner, payload)
        if changed is None:
            return None
        return structs.replace(prompt, text=changed.text, extra=(*others, *changed.images))

    def prepares_runs(self) -> bool:
        return self._wants("before_agent_start")

    async def before_run(self, message: UserMessage) -> tuple[CustomMessage, ...]:
        if not self._wants("before_agent_start"):
            return ()
        resources = self._engine.resources
        payload = payloads.BeforeAgentStart(
            prompt=text_of(message.content),
            system_prompt=resources.system_prompt(),
            system_prompt_options=resources.prompt_options(),
            images=tuple(part for part in message.content if isinstance(part, Image)),
        )
        final = await self._runner.transform(payload)
        if final.forced:
            resources.override = final.system_prompt
        elif final.system_prompt_options != payload.system_prompt_options:
            resources.override = resources.render(final.system_prompt_options)
        return final.messages

    def commands(self) -> tuple[Any, ...]:
        return self._extensions.commands() if self._extensions is not None else ()

    def is_command(self, text: str) -> bool:
        return self._extensions is not None and self._extensions.find_command(text) is not None

    async def run_command(self, text: str) -> None:
        extensions = self._extensions
        invocation = extensions.find_command(text) if extensions is not None else None
        if extensions is not None and invocation is not None:
            await extensions.run_command(invocation)

    # ------------------------------------------------------------ turns

    async def before_request(self, system: str, messages: History) -> tuple[str, History]:
        if not (self._wants("context") or self._wants("context_with_system")):
            return system, messages
        return await points.context(self._runner, system, messages)

    async def finish_message(self, message: Message) -> Message:
        if not self._wants("message_end"):
            return message
        changed = await self._run(points.message_end(self._runner, message))
        return message if changed is None else changed

    def tools(self) -> Mapping[str, Tool]:
        return self._extensions.tools() if self._extensions is not None else {}

    async def before_tool(
        self, call: ToolCall, tool: Tool, args: Mapping[str, Any]
    ) -> Mapping[str, Any] | Deny:
        """Raises:
        ToolFailure: a handler failed, which blocks the call.
        """
        if not self._wants("tool_call"):
            return args
        try:
            answer = await points.tool_call(self._runner, call.name, call.id, args)
        except Failed as error:
            raise ToolFailure(str(error)) from error
        if answer.block:
            return Deny(answer.reason or Deny().reason, ends_run=answer.terminate)
        return dict(answer.input)

    async def after_tool(self, call: ToolCall, outcome: Outcome) -> Outcome:
        if not self._wants("tool_result"):
            return outcome
        output = outcome.output
        payload = payloads.ToolReturned(
            tool_name=call.name,
            tool_call_id=call.id,
            input=call.arguments,
            content=output.content,
            is_error=outcome.is_error,
            details=output.details,
            usage=output.usage,
        )
        changed, is_error = await points.tool_result(self._runner, payload, output)
        return Outcome(changed, is_error)

    async def before_turn_end(self, event: TurnEnd) -> None:
        if not self._wants("turn_end"):
            return
        message_id, *result_ids = self._last_messages(1 + len(event.tool_results)) or (None,)
        payload = payloads.TurnEnd(
            turn_index=self._teller.turn_index,
            message=event.message,
            tool_results=event.tool_results,
            message_entry_id=message_id,
            tool_result_entry_ids=tuple(one for one in result_ids if one is not None),
            context=self._boundary(),
        )
        final = await self._run(self._runner.transform(payload))
        if final is not None:
            self._commit(final.entries)

    def _last_messages(self, count: int) -> list[str]:
        """Return the ids of the last entries that are messages, in order."""
        path = reversed(self._conversation.session.path_to_leaf())
        ids = (entry.id for entry in path if entry.type == "message")
        return list(islice(ids, count))[::-1]

    def _boundary(self) -> payloads.Boundary:
        session = self._conversation.session
        return payloads.Boundary(
            context_entries=views(session.path_to_leaf()),
            context_messages=tuple(session.context.messages()),
        )

    async def before_settle(self, outcome: Any) -> bool:
        if not self._wants("agent_before_settle"):
            return False
        payload = payloads.AgentBeforeSettle(outcome=outcome, context=self._boundary())
        final = await self._run(self._runner.transform(payload))
        if final is None:
            return False
        self._commit(final.entries)
        return bool(final.continue_)

    def _commit(self, drafts: tuple[Any, ...]) -> None:
        """Store entries that handlers returned."""
        for draft in drafts:
            try:
                entry = store_draft(self._conversation.session, draft)
            except CommandError as error:
                self.report("<boundary>", "context_edit", str(error))
                continue
            if entry is not None:
                event = EntryStored(entry=msgspec.Raw(entry_json(entry)))
                self._conversation.hub.post(event)

    # ------------------------------------------------------------ shell commands

    async def run_bash(self, command: str, *, exclude: bool) -> BashResult | None:
        """Raises:
        CommandError: a handler failed, which refuses the command.
        """
        if not self._wants("user_bash"):
            return None
        cwd = str(self._engine.workspace.cwd)
        payload = payloads.UserBash(command=command, exclude_from_context=exclude, cwd=cwd)
        try:
            answer = await points.user_bash(self._runner, payload)
            if answer is None:
                return None
            if not isinstance(answer, answers.BashAnswer):
                return await self._run_elsewhere(answer.operations, command, cwd)
        except Failed as error:
            raise CommandError(str(error)) from error
        return BashResult(
            output=answer.output,
            exit_code=answer.exit_code,
            cancelled=answer.cancelled,
            truncated=answer.truncated,
            full_output_path=answer.full_output_path,
        )

    async def _run_elsewhere(self, operations: Any, command: str, cwd: str) -> BashResult:
        from ludolf.tools.output import OutputTail

        with OutputTail() as tail:

            def on_data(data: bytes | str) -> None:
                text = tail.feed(data.encode() if isinstance(data, str) else data)
                self._conversation.hub.post(ShellOutput(delta=text))

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

    # ------------------------------------------------------------ history

    async def before_switch(self, reason: Literal["new", "resume"], target: str | None) -> None:
        if self._wants("session_before_switch"):
            payload = payloads.SessionBeforeSwitch(reason=reason, target_session_file=target)
            if (await points.before_switch(self._runner, payload)).cancel:
                raise Vetoed

    async def before_fork(self, entry_id: str, position: Literal["before", "at"]) -> None:
        if self._wants("session_before_fork"):
            payload = payloads.SessionBeforeFork(entry_id=entry_id, position=position)
            if (await points.before_fork(self._runner, payload)).cancel:
                raise Vetoed

    async def before_compact(
        self,
        prepared: Preparation,
        reason: CompactionReason,
        instructions: str | None,
        *,
        will_retry: bool,
    ) -> CompactionBody | None:
        if not self._wants("session_before_compact"):
            return None
        payload = payloads.SessionBeforeCompact(
            preparation=payloads.compaction_plan(prepared),
            branch_entries=views(self._conversation.session.path_to_leaf()),
            custom_instructions=instructions,
            reason=reason,
            will_retry=will_retry,
        )
        answer = await points.before_compact(self._runner, payload)
        if answer.cancel:
            raise Vetoed
        if answer.compaction is None:
            return None
        return CompactionBody(
            summary=answer.compaction.summary,
            first_kept_entry_id=answer.compaction.first_kept_entry_id,
            tokens_before=answer.compaction.tokens_before,
            details=answer.compaction.details,
            usage=answer.compaction.usage,
            from_hook=True,
        )

    async def after_compact(self, end: CompactionEnd) -> None:
        if self._extensions is None:
            return
        if end.result is None:
            failed = payloads.SessionCompactFailed(
                reason=end.reason,
                aborted=end.aborted,
                will_retry=end.will_retry,
                error_message=end.error_message,
            )
            await self._run(self._runner.emit(failed))
            return
        entry = self._conversation.session.path_to_leaf()[-1]
        done = payloads.SessionCompact(
            compaction_entry=EntryView(entry),
            from_extension=bool(fields(entry).get("fromHook")),
            reason=end.reason,
            will_retry=end.will_retry,
        )
        await self._run(self._runner.emit(done))

    async def before_tree(
        self, move: TreeMove, leaf: str | None
    ) -> tuple[TreeMove, BranchSummaryBody | None]:
        if not self._wants("session_before_tree"):
            return move, None
        session = self._conversation.session
        kept = {entry.id for entry in session.path_to(leaf)}
        left = [entry for entry in session.path_to_leaf() if entry.id not in kept]
        plan = payloads.TreePlan(
            target_id=move.target_id,
            old_leaf_id=session.leaf,
            common_ancestor_id=left[0].parent_id if left else session.leaf,
            entries_to_summarize=views(left),
            user_wants_summary=move.summarize,
            custom_instructions=move.instructions,
            replace_instructions=move.replace,
            label=move.label,
        )
        payload = payloads.SessionBeforeTree(preparation=plan)
        answer = await points.before_tree(self._runner, payload)
        if answer.cancel:
            raise Vetoed
        changed = _changed_move(move, answer)
        if answer.summary is None or not move.summarize:
            return changed, None
        return changed, BranchSummaryBody(
            from_id=session.leaf or "root",
            summary=answer.summary.summary,
            details=answer.summary.details,
            usage=answer.summary.usage,
            from_hook=True,
        )

    async def after_tree(
        self, old_leaf: str | None, summary: Entry | None, *, by_feature: bool
    ) -> None:
        if self._wants("session_tree"):
            await self._runner.emit(
                payloads.SessionTree(
                    new_leaf_id=self._conversation.session.leaf,
                    old_leaf_id=old_leaf,
                    summary_entry=EntryView(summary) if summary is not None else None,
                    from_extension=by_feature,
                )
            )


class ParentExtensions(Feature):
    """The extensions of a parent, as a subagent uses them: their tools and their guards."""

    def __init__(self, parent: ExtensionBridge) -> None:
        self._parent = parent

    def tools(self) -> Mapping[str, Tool]:
        return self._parent.tools()

    async def before_tool(
        self, call: ToolCall, tool: Tool, args: Mapping[str, Any]
    ) -> Mapping[str, Any] | Deny:
        return await self._parent.before_tool(call, tool, args)

    async def after_tool(self, call: ToolCall, outcome: Outcome) -> Outcome:
        return await self._parent.after_tool(call, outcome)

    def for_subagent(self, bundles: Any) -> Feature:
        return self


class _ProviderWatch:
    """Calls handlers for requests to providers; set on the transport while there are some."""

    def __init__(self, runner: HookRunner) -> None:
        self._runner = runner

    async def sending(self, body: bytes, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        if self._runner.wants("before_provider_request"):
            before = payloads.BeforeProviderRequest(payload=loads(body))
            body = dumps((await self._runner.transform(before)).payload)
        if self._runner.wants("before_provider_headers"):
            payload = payloads.BeforeProviderHeaders(headers=headers)
            changed = await self._runner.transform(payload)
            headers = {name: text for name, text in changed.headers.items() if text is not None}
        return body, headers

    async def answered(self, status: int, headers: Mapping[str, str]) -> None:
        if self._runner.wants("after_provider_response"):
            payload = payloads.AfterProviderResponse(status=status, headers=dict(headers))
            await self._runner.emit(payload)


def _changed_move(move: TreeMove, answer: answers.TreeDecision) -> TreeMove:
    replace = answer.replace_instructions
    return structs.replace(
        move,
        instructions=answer.custom_instructions or move.instructions,
        replace=move.replace if replace is None else replace,
        label=answer.label or move.label,
    )
