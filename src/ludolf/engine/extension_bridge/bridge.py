"""Extensions of the current session as a feature of the engine."""

import asyncio
import sys
from collections import deque
from collections.abc import Coroutine, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from msgspec import structs

from ludolf.agent import events
from ludolf.agent.io import Outcome
from ludolf.agent.scope import Aborted, Scope
from ludolf.agent.tool import Deny, Tool, ToolFailure, ToolOutput
from ludolf.ai.messages import (
    CustomMessage,
    Image,
    Message,
    OpaqueMessage,
    ThinkingLevel,
    ToolCall,
    UserMessage,
    text_of,
)
from ludolf.ai.models import Model
from ludolf.base import CommandError, ConfigError, dumps, loads, now_ms
from ludolf.config.settings.trust import guarded_paths, save_decision
from ludolf.engine.engine import Engine
from ludolf.engine.extension_bridge.host import EngineHost, host_mode, print_notice, report_error
from ludolf.engine.extension_bridge.provider_catalogs import ProviderCatalogs
from ludolf.engine.feature import (
    Feature,
    History,
    PromptInput,
    Send,
    SessionMove,
    TreeMove,
    Vetoed,
)
from ludolf.engine.host.dialogs import HostDialogs
from ludolf.engine.project_trust import NOT_APPLIED, keep_imports, verify_code
from ludolf.extensions import answers, payloads
from ludolf.extensions.context import TrustContext
from ludolf.extensions.dialogs import Dialogs
from ludolf.extensions.extensions import Extensions
from ludolf.extensions.loader import (
    ExtensionFile,
    LoadError,
    factory_origin,
    find_extensions,
)
from ludolf.extensions.runner import GateFailed, HookRunner, Limit
from ludolf.extensions.session_view import EntryView, views
from ludolf.functions.isolation import Failed, call
from ludolf.protocol.events import (
    AgentSettled,
    CompactionEnd,
    CompactionReason,
    EntryStored,
    Event,
    SessionInfoChanged,
    ShellOutput,
)
from ludolf.protocol.results import BashResult
from ludolf.protocol.ui import UiRequest
from ludolf.session.compaction import Preparation
from ludolf.session.entries import BranchSummaryBody, CompactionBody, Entry, entry_json, fields

if TYPE_CHECKING:
    from ludolf.engine.features.script_extensions.scripts import ScriptExtensions

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

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._conversation = engine.conversation
        self._host_dialogs = HostDialogs(
            engine.conversation.answer_clock, _waiting(engine.send), withdraws=False
        )
        self._dialogs = Dialogs(
            None if engine.send is None else self._host_dialogs,
            print_notice if engine.mode == "print" else None,
        )
        self._teller = Teller()
        self._updates: deque[payloads.Payload] = deque()
        self._deadline: float | None = None
        self._extensions = Extensions(self.report)
        self._scripts: ScriptExtensions | None = None
        self._catalogs = ProviderCatalogs(engine)

    def _wants(self, name: str) -> bool:
        return self._extensions.runner.wants(name)

    @property
    def _runner(self) -> HookRunner:
        return self._extensions.runner

    # ------------------------------------------------------------ life

    async def load(self, move: SessionMove) -> None:
        """Load extensions and start them in the current session.

        Raises:
            ConfigError: an extension named on the command line does not load, or a flag is unknown.
        """
        engine = self._engine
        if engine.mode != "sdk":  # there stdout belongs to another program
            # Extensions print for people: their text must not come between frames.
            sys.stdout = sys.__stdout__ = sys.stderr  # type: ignore[assignment,misc]  # any stream will do
        limit = _seconds(engine.workspace.settings.handler_timeout_ms)
        extensions = Extensions(self.report, flags=engine.workspace.options.flags, limit=limit)
        extensions.runtime.catalog = engine.models.registry
        await self._load(extensions)
        self._guard_code(move)
        for text in extensions.flag_errors():
            raise ConfigError(text)
        if extensions.extensions:
            previous = str(move.previous) if move.previous is not None else None
            start = payloads.SessionStart(reason=move.reason, previous_session_file=previous)
            await self._attach(extensions, start)
            await extensions.continue_with(move.then)

    async def _load(self, extensions: Extensions) -> None:
        """Load the user's extensions first; they may trust the project, whose own follow."""
        workspace, bundles = self._engine.workspace, self._engine.bundles
        verify_code(bundles)
        errors = await self._load_found(extensions)
        if not workspace.files.trusted and await self._project_is_trusted(extensions):
            self._engine.trust_project()
            verify_code(bundles)
            errors += await self._load_found(extensions)
        keep_imports(bundles)
        for error in errors:
            # Hosts of pi pass extensions that only pi runs; the session works without them.
            if error.explicit and not (error.foreign and host_mode(self._engine) == "rpc"):
                raise ConfigError(str(error))
            workspace.warn(f"Warning: {error}")
            self.report(error.path, "load", error.error)

    def _guard_code(self, move: SessionMove) -> None:
        """Protect imported code. A start ends if that fails; a later session only reports it."""
        try:
            self._engine.features.guard_code()
        except ConfigError as error:
            if move.reason == "startup":
                raise
            self._engine.conversation.hub.report(NOT_APPLIED.format(error=error))

    async def _load_found(self, extensions: Extensions) -> list[LoadError]:
        workspace = self._engine.workspace
        options = workspace.options
        found = find_extensions(
            workspace.home,
            workspace.files,
            paths=options.extensions,
            discover=not options.no_extensions,
            scripts=workspace.settings.script_extensions,
        )
        factories = [factory_origin(factory) for factory in options.factories]
        origins = [self._runnable(origin) for origin in found.origins]
        slow = any(origin.script for origin in origins)
        if slow and self._engine.on_slow_start is not None:
            self._engine.on_slow_start()
        return [*found.errors, *await extensions.load([*factories, *origins])]

    def _runnable(self, origin: ExtensionFile) -> ExtensionFile:
        """Return an extension that can be loaded; the first script starts Node."""
        if not origin.script:
            return origin
        if self._scripts is None:
            from ludolf.engine.features.script_extensions.scripts import ScriptExtensions

            self._scripts = ScriptExtensions(self._engine, self.report)
            self._engine.features.add(self._scripts, outermost=True)
        self._scripts.start_early()
        return self._scripts.origin(origin)

    async def _project_is_trusted(self, extensions: Extensions) -> bool:
        home, options = self._engine.workspace.home, self._engine.workspace.options
        if options.approve is not None or not guarded_paths(home):
            return False
        if not extensions.runner.wants("project_trust"):
            return False
        context = TrustContext(host_mode(self._engine), self._dialogs, home.cwd)
        payload = payloads.ProjectTrust(cwd=str(home.cwd))
        answer = (await extensions.runner.dispatch(payload, context)).answer
        if answer is not None and answer.remember:
            save_decision(home, trusted=answer.trusted)
        return answer is not None and answer.trusted

    async def _attach(self, extensions: Extensions, start: payloads.SessionStart) -> None:
        """Use loaded extensions from now on, and call their `session_start` handlers."""
        self._extensions, self._teller = extensions, Teller()
        if any(map(self._wants, _PROVIDER_HOOKS)):
            self._engine.models.transport.watcher = _ProviderWatch(extensions.runner)
        self._engine.toolset.invalidate()
        self._catalogs = ProviderCatalogs(self._engine)
        extensions.bind(EngineHost(self._engine, self._dialogs, self._catalogs))
        if self._scripts is not None:
            self._scripts.bind()
        await self._catalogs.start()
        await extensions.runner.emit(start)
        if self._wants("resources_discover"):
            reason: Literal["startup", "reload"]
            reason = "reload" if start.reason == "reload" else "startup"
            cwd = str(self._engine.workspace.cwd)
            payload = payloads.ResourcesDiscover(cwd=cwd, reason=reason)
            discovered = await self._runner.transform(payload)
            self._engine.resources.add(discovered.skill_paths, discovered.prompt_paths)

    async def leave_session(self, reason: str, target: str | None) -> None:
        if not self._extensions.extensions:
            return
        payload: Any = payloads.SessionShutdown(reason=reason, target_session_file=target)  # type: ignore[arg-type]
        # The end of the program does not wait for a handler that hangs; other reasons may ask.
        limit = SHUTDOWN_SECONDS if reason == "quit" else None
        try:
            async with asyncio.timeout(limit):
                await self._runner.emit(payload)
        except TimeoutError:
            self.report("<runtime>", "session_shutdown", f"took longer than {limit:g} s")
        self._host_dialogs.dismiss_all()
        extensions, self._extensions = self._extensions, Extensions(self.report)
        await self._catalogs.close()
        await extensions.close()
        if self._scripts is not None:
            self._scripts.leave(fresh=reason == "reload")
        self._engine.models.transport.watcher = None
        self._engine.toolset.invalidate()

    def answer_dialog(self, answer: Any) -> None:
        self._host_dialogs.answer(answer)

    def open_dialogs(self) -> tuple[UiRequest, ...]:
        return self._host_dialogs.waiting()

    def disconnect(self) -> None:
        self._host_dialogs.close()

    def report(self, path: str, event: str, text: str, cause: Failed | None = None, /) -> None:
        report_error(self._engine, path, event, text, cause)

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
        await self._run(self._runner.emit(self._teller.payload(event)))

    def on_update(self, update: events.MessageUpdate) -> None:
        if self._wants("message_update"):
            self._updates.append(self._teller.payload(update))

    async def flush_updates(self) -> None:
        updates, self._updates = self._updates, deque()
        while updates:
            waits = self._runner.emit_now(updates.popleft())
            if waits is not None:
                await self._run(self._emit_updates(waits, updates))

    async def _emit_updates(
        self, first: Coroutine[Any, Any, None], updates: "deque[payloads.Payload]"
    ) -> None:
        """Wait for handlers in one task for many updates; an abort leaves the rest."""
        await first
        while updates:
            await self._runner.emit(updates.popleft())

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

    async def after_login(self, provider: str) -> None:
        await self._catalogs.after_login(provider)

    # ------------------------------------------------------------ prompts

    def handles_input(self, text: str) -> bool:
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
        state = await self._runner.dispatch(payload)
        if state.answer == "handled":
            return None
        changed: payloads.Input = state.payload
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
        return self._extensions.commands()

    def is_command(self, text: str) -> bool:
        return self._extensions.find_command(text) is not None

    async def run_command(self, text: str) -> None:
        invocation = self._extensions.find_command(text)
        if invocation is not None:
            await self._extensions.run_command(invocation)

    async def complete_command(self, name: str, prefix: str) -> tuple[Any, ...] | None:
        return await self._extensions.complete_command(name, prefix)

    def shortcuts(self) -> tuple[Any, ...]:
        return self._extensions.shortcut_items()

    async def run_shortcut(self, key: str) -> bool:
        return await self._extensions.run_shortcut(key)

    # ------------------------------------------------------------ turns

    async def before_request(self, system: str, messages: History) -> tuple[str, History]:
        if self._wants("context"):
            built = await self._runner.transform(payloads.ContextBuilt(messages=messages))
            messages = built.messages
        if self._wants("context_with_system"):
            both = payloads.ContextWithSystem(system_prompt=system, messages=messages)
            changed = await self._runner.transform(both)
            system, messages = changed.system_prompt, changed.messages
        return system, messages

    async def finish_message(self, message: Message) -> Message:
        if not self._wants("message_end"):
            return message
        payload = payloads.MessageEnd(message=message)
        final = await self._run(self._runner.transform(payload))
        if final is None:
            return message
        assert not isinstance(final.message, OpaqueMessage)  # its role is that of the message
        return final.message

    def tools(self) -> Mapping[str, Tool]:
        return self._extensions.tools()

    async def before_tool(
        self, call: ToolCall, tool: Tool, args: Mapping[str, Any]
    ) -> Mapping[str, Any] | Deny:
        """Raises:
        ToolFailure: a handler failed, which blocks the call.
        """
        if not self._wants("tool_call"):
            return args
        payload = payloads.ToolCalled(tool_name=call.name, tool_call_id=call.id, input=args)
        try:
            answer: answers.ToolCallDecision | None = await self._runner.verdict(payload)
        except GateFailed as error:
            raise ToolFailure(self._refusal(error)) from error
        if answer is None:
            return args
        if answer.block:
            return Deny(answer.reason or Deny().reason, ends_run=answer.terminate)
        return dict(answer.input)

    def _refusal(self, error: GateFailed) -> str:
        """Return the text of a failed gate for the model and the user."""
        if error.raised and self._engine.mode == "rpc":
            return str(error)  # the text that hosts of pi receive
        return f"The extension {error.path} failed, so this call was blocked: {error}"

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
        final = await self._runner.transform(payload)
        changed = ToolOutput(
            content=final.content,
            details=final.details,
            usage=final.usage,
            ends_run=output.ends_run,
        )
        return Outcome(changed, final.is_error)

    async def before_turn_end(self, event: events.TurnEnd) -> None:
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

    def _commit(self, drafts: tuple[answers.EntryDraft, ...]) -> None:
        """Store entries that handlers returned, or take an entry out of the context."""
        session = self._conversation.session
        for draft in drafts:
            if not isinstance(draft, answers.ContextEditDraft):
                entry = session.append(draft)
                self._conversation.hub.post(EntryStored(entry=msgspec.Raw(entry_json(entry))))
            elif draft.replacement is None:
                session.omit(draft.target_id)
            else:
                text = "context_edit can only take an entry out of the context"
                self.report("<boundary>", "context_edit", text)

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
            answer = await self._runner.verdict(payload)
            if isinstance(answer, answers.BashElsewhere):
                return await self._run_elsewhere(answer.operations, command, cwd)
        except GateFailed as error:
            raise CommandError(self._refusal(error)) from error
        except Failed as error:
            raise CommandError(str(error)) from error
        return None if answer is None else BashResult(**structs.asdict(answer))

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

    async def _decide(self, payload: payloads.Payload) -> Any:
        """Return the decision of the handlers; None if they left it open.

        Raises:
            Vetoed: a handler refused the change.
        """
        decision = await self._runner.verdict(payload) if self._wants(payload.type) else None
        if decision is not None and decision.cancel:
            raise Vetoed
        return decision

    async def before_switch(self, reason: Literal["new", "resume"], target: str | None) -> None:
        await self._decide(payloads.SessionBeforeSwitch(reason=reason, target_session_file=target))

    async def before_fork(self, entry_id: str, position: Literal["before", "at"]) -> None:
        await self._decide(payloads.SessionBeforeFork(entry_id=entry_id, position=position))

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
        decision: answers.CompactDecision | None = await self._decide(payload)
        return decision.compaction if decision is not None else None

    async def after_compact(self, end: CompactionEnd) -> None:
        if not self._extensions.extensions:
            return
        payload: payloads.Payload
        if end.result is None:
            payload = payloads.SessionCompactFailed(
                reason=end.reason,
                aborted=end.aborted,
                will_retry=end.will_retry,
                error_message=end.error_message,
            )
        else:
            entry = self._conversation.session.path_to_leaf()[-1]
            payload = payloads.SessionCompact(
                compaction_entry=EntryView(entry),
                from_extension=bool(fields(entry).get("fromHook")),
                reason=end.reason,
                will_retry=end.will_retry,
            )
        await self._run(self._runner.emit(payload))

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
        answer: answers.TreeDecision = await self._decide(payload) or answers.TreeDecision()
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


def _waiting(send: Send | None) -> Send | None:
    """Return `send` for dialogs that wait for an answer at a host that shows none, as in pi."""
    if send is None:
        return None

    def show(request: UiRequest) -> None:
        send(request)

    return show


def _changed_move(move: TreeMove, answer: answers.TreeDecision) -> TreeMove:
    replace = answer.replace_instructions
    return structs.replace(
        move,
        instructions=answer.custom_instructions or move.instructions,
        replace=move.replace if replace is None else replace,
        label=answer.label or move.label,
    )


# ---------------------------------------------------------------- events of the hub

# Without message_end and turn_end: handlers may change these, so they are dispatched separately.
_PAYLOADS: dict[type, type[payloads.Payload]] = {
    events.AgentStart: payloads.AgentStart,
    events.AgentEnd: payloads.AgentEnd,
    events.TurnStart: payloads.TurnStart,
    events.MessageStart: payloads.MessageStart,
    events.MessageUpdate: payloads.MessageUpdate,
    events.ToolStart: payloads.ToolExecutionStart,
    events.ToolUpdate: payloads.ToolExecutionUpdate,
    events.ToolEnd: payloads.ToolExecutionEnd,
    AgentSettled: payloads.AgentSettled,
    SessionInfoChanged: payloads.SessionInfoChanged,
}
NAMES = {event: str(kind.__struct_config__.tag) for event, kind in _PAYLOADS.items()}


class Teller:
    """Converts events and counts turns. Pass every event of a run to `note`, in order."""

    def __init__(self) -> None:
        self.turn_index = -1

    def note(self, event: Any) -> None:
        kind = type(event)
        if kind is events.TurnStart:
            self.turn_index += 1
        elif kind is events.AgentStart:
            self.turn_index = -1

    def payload(self, event: Any) -> payloads.Payload:
        """Return the payload of an event whose type is in `NAMES`."""
        if isinstance(event, events.MessageUpdate):
            return payloads.MessageUpdate(
                message=event.draft.snapshot(),
                assistant_message_event=payloads.answer_piece(event.event),
            )
        if isinstance(event, events.TurnStart):
            return payloads.TurnStart(turn_index=self.turn_index, timestamp=now_ms())
        # The other payloads have fields of their event.
        kind = _PAYLOADS[type(event)]
        return kind(**{name: getattr(event, name) for name in kind.__struct_fields__})


def _seconds(limit: int | Mapping[str, int]) -> Limit:
    if isinstance(limit, int):
        return limit / 1000 or None
    return {name: ms / 1000 for name, ms in limit.items() if ms}
