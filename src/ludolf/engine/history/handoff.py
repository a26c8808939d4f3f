"""Hand off to a new session that begins with a summary document."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.messages import AssistantMessage, Message, OpaqueMessage, Usage, UserMessage, text_of
from ludolf.base import CommandError
from ludolf.engine.bundles import Component
from ludolf.engine.feature import Vetoed
from ludolf.engine.history.sessions import SessionSwitcher
from ludolf.engine.history.summaries import SummaryFailed
from ludolf.engine.run.runner import PromptRunner
from ludolf.protocol.results import HandedOver
from ludolf.session.entries import CustomMessageBody
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


class _Document(msgspec.Struct, frozen=True):
    document: str
    files: "FileLists"
    usage: Usage

    def begin(self, session: Session) -> None:
        """Write it as the first message of a session."""
        from ludolf.session.summary_text import handoff_message

        session.append(
            CustomMessageBody(
                custom_type=CUSTOM_TYPE,
                content=handoff_message(self.document),
                display=True,
                details=self.files,
            )
        )


class Handoffs(Component):
    """One at a time."""

    def __init__(self, runner: PromptRunner, sessions: SessionSwitcher, work: Scope) -> None:
        super().__init__(runner.bundles)
        self._runner = runner
        self._compactor = runner.compactor
        self._sessions = sessions
        self._work = work

    @property
    def running(self) -> bool:
        return "handoff" in self.conversation.summarising

    async def go(self, instructions: str | None) -> HandedOver:
        """Write the document, and begin a new session with it.

        Raises:
            CommandError: refused, failed or cancelled; the session is then as it was.
        """
        self._check()
        written = await self._write(instructions)
        self._check()
        old = _name(self.conversation.session)
        try:
            await self._sessions.new(old, setup=written.begin)
        except Vetoed:
            return HandedOver(cancelled=True)
        new = self.conversation.session
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
        messages = self.conversation.session.context.messages()
        if not any(isinstance(message, UserMessage | AssistantMessage) for message in messages):
            raise CommandError(NOTHING)
        self.models.require()

    async def _write(self, instructions: str | None) -> _Document:
        self.conversation.summarising.add("handoff")
        try:
            with self._work.open() as scope:
                return await scope.run(self._ask(instructions))
        except Aborted:
            raise CommandError(CANCELLED) from None
        except SummaryFailed as error:
            raise CommandError(str(error)) from error
        finally:
            self.conversation.summarising.discard("handoff")
            for feature in self.features:
                feature.on_handoff_end()

    async def _ask(self, instructions: str | None) -> _Document:
        from ludolf.session import summary_text as words
        from ludolf.session.compaction import collect_files

        model, view = self.models.require(), self.conversation.session.context
        messages = [each for each in view.messages() if not isinstance(each, OpaqueMessage)]
        before = [entry for entry in view.entries if entry.type == "compaction"]
        files = collect_files(messages, before)
        text = words.handoff_request(self._fitting(messages), instructions)
        most = min(DOCUMENT_LIMIT, model.max_tokens)
        answer = await self._compactor.summaries.ask(text, most, None, source="handoff")
        document = text_of(answer.content) + words.file_blocks(files)
        return _Document(document, files, answer.usage)

    def _fitting(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return all messages, or the newest that fit the window, without tool output."""
        from ludolf.session.compaction import prepare_branch
        from ludolf.session.summary_text import serialize

        window = self.models.require().context_window or UNKNOWN_WINDOW
        reserve = self.workspace.settings.branch_summary.reserve_tokens
        room = window - min(reserve, window // 2)
        if len(serialize(messages)) <= room * CHARACTERS_PER_TOKEN:
            return messages
        session = self.conversation.session
        prepared = prepare_branch(session.context.entries, (), room, session.omitted)
        if isinstance(prepared, str):
            raise SummaryFailed(prepared)
        return prepared.messages


def _name(session: Session) -> str | None:
    return str(session.path) if session.path is not None else None
