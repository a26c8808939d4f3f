"""Handing over: the session ends with a document, and a new one begins with it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.messages import AssistantMessage, Message, OpaqueMessage, Usage, UserMessage, text_of
from ludolf.base import CommandError, Value
from ludolf.engine.history.compact import Compactor
from ludolf.engine.history.sessions import Sessions
from ludolf.engine.history.summaries import SummaryFailed
from ludolf.engine.parts import Parts
from ludolf.engine.run.runner import Runner
from ludolf.session.entries import CustomMessageEntry
from ludolf.session.tree import Session

if TYPE_CHECKING:
    from ludolf.session.summary_text import FileLists

BUSY = "Cannot hand off while a response is in progress"
COMPACTING = "Cannot hand off while compaction is in progress"
NOTHING = "Nothing to hand off (no messages yet)"
CANCELLED = "Handoff cancelled"
CUSTOM_TYPE = "handoff"
DOCUMENT_LIMIT = 8192
UNKNOWN_WINDOW = 128_000
CHARACTERS_PER_TOKEN = 4


class HandedOver(Value, kw_only=True):
    """The new session, if no extension said no, and the document that it begins with."""

    cancelled: bool
    document: str | None = None
    session_id: str | None = None
    session_file: str | None = None
    usage: Usage | None = None


class _Written(msgspec.Struct, frozen=True):
    document: str
    files: "FileLists"
    usage: Usage

    def begin(self, session: Session) -> None:
        """Let a session begin with it."""
        from ludolf.session.summary_text import handoff_message

        session.append(
            CustomMessageEntry(
                custom_type=CUSTOM_TYPE,
                content=handoff_message(self.document),
                display=True,
                details=self.files,
            )
        )


class HandOver:
    """One at a time; `running` is part of what is called compacting."""

    def __init__(
        self,
        parts: Parts,
        compactor: Compactor,
        runner: Runner,
        sessions: Sessions,
    ) -> None:
        self._parts = parts
        self._compactor = compactor
        self._runner = runner
        self._sessions = sessions
        self._scope: Scope | None = None

    @property
    def running(self) -> bool:
        return self._scope is not None

    def abort(self) -> None:
        if self._scope is not None:
            self._scope.abort()

    async def go(self, instructions: str | None) -> HandedOver:
        """Write the document, and begin a new session with it.

        Raises:
            CommandError: refused, failed or cancelled; the session is then as it was.
        """
        self._check()
        written = await self._write(instructions)
        self._check()
        old = _name(self._parts.session)
        if await self._sessions.new(old, setup=written.begin):
            return HandedOver(cancelled=True)
        new = self._parts.session
        return HandedOver(
            cancelled=False,
            document=written.document,
            session_id=new.id,
            session_file=_name(new),
            usage=written.usage,
        )

    # ------------------------------------------------------------ private

    def _check(self) -> None:
        if self._runner.running:
            raise CommandError(BUSY)
        if self._compactor.manual_running or self.running:
            raise CommandError(COMPACTING)
        said = self._parts.session.context.messages()
        if not any(isinstance(message, UserMessage | AssistantMessage) for message in said):
            raise CommandError(NOTHING)
        self._parts.models.require()

    async def _write(self, instructions: str | None) -> _Written:
        scope = self._scope = Scope()
        try:
            return await scope.run(self._ask(instructions))
        except Aborted:
            raise CommandError(CANCELLED) from None
        except SummaryFailed as error:
            raise CommandError(str(error)) from error
        finally:
            self._scope = None
            if self._parts.jobs is not None:
                self._parts.jobs.wake_soon()

    async def _ask(self, instructions: str | None) -> _Written:
        from ludolf.session import summary_text as words
        from ludolf.session.compaction import collect_files

        model, view = self._parts.models.require(), self._parts.session.context
        messages = _readable(view.messages())
        before = next((entry for entry in view.entries if entry.type == "compaction"), None)
        files = collect_files(messages, before)
        text = words.handoff_request(self._fitting(messages), instructions)
        most = min(DOCUMENT_LIMIT, model.max_tokens)
        answer = await self._compactor.summaries.ask(
            words.SYSTEM_PROMPT, text, most, None, source="handoff"
        )
        document = text_of(answer.content) + words.file_blocks(files)
        return _Written(document, files, answer.usage)

    def _fitting(self, messages: Sequence[Message]) -> Sequence[Message]:
        """All of it, or what fits the window: the newest, without what tools said."""
        from ludolf.session.compaction import prepare_branch
        from ludolf.session.summary_text import serialize

        window = self._parts.models.require().context_window or UNKNOWN_WINDOW
        reserve = self._parts.settings.branch_summary.reserve_tokens
        room = window - min(reserve, window // 2)
        if len(serialize(messages)) <= room * CHARACTERS_PER_TOKEN:
            return messages
        session = self._parts.session
        prepared = prepare_branch(session.context.entries, (), room, session.omitted)
        if isinstance(prepared, str):
            raise SummaryFailed(prepared)
        return prepared.messages


def _name(session: Session) -> str | None:
    return str(session.path) if session.path is not None else None


def _readable(messages: Sequence[Message | OpaqueMessage]) -> tuple[Message, ...]:
    return tuple(message for message in messages if not isinstance(message, OpaqueMessage))
