"""Moving about in the tree of a conversation, with a summary of the branch left behind."""

from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.messages import UserMessage, text_of
from ludolf.base import CommandError, Value
from ludolf.engine.extension_bridge.hook_points import Vetoed
from ludolf.engine.extension_bridge.tree_hooks import TreeHooks, Wish
from ludolf.engine.history.summaries import Summaries, SummaryFailed
from ludolf.engine.parts import Parts
from ludolf.session.entries import BranchSummary, Entry, Label, fields, message_of

UNKNOWN_WINDOW = 128_000
SUMMARY_LIMIT = 4096


class Moved(Value):
    """`text` is that of a user's message gone back to, for editing it anew."""

    cancelled: bool
    text: str | None = None
    summary_entry_id: str | None = None


class TreeWalk:
    """Goes to another place of the tree; `summarising` is part of what is called compacting."""

    def __init__(self, parts: Parts, summaries: Summaries) -> None:
        self._parts = parts
        self._summaries = summaries
        self._scope: Scope | None = None

    @property
    def summarising(self) -> bool:
        return self._scope is not None

    def abort(self) -> None:
        if self._scope is not None:
            self._scope.abort()

    async def go(
        self,
        target_id: str,
        *,
        summarize: bool = False,
        instructions: str | None = None,
        replace: bool = False,
        label: str | None = None,
    ) -> Moved:
        """Raises:
        CommandError: there is no such entry, or the summary failed.
        """
        wish = Wish(
            target_id=target_id,
            summarize=summarize,
            instructions=instructions,
            replace=replace,
            label=label,
        )
        return await self._go(wish)

    async def _go(self, wish: Wish) -> Moved:
        session, target_id = self._parts.session, wish.target_id
        target = session.get(target_id)
        if target is None:
            raise CommandError(f"Entry not found: {target_id}")
        if session.read_only is not None and (wish.summarize or wish.label):
            raise CommandError(session.read_only)
        if target_id == session.leaf:
            if wish.label:
                session.append(Label(target_id=target_id, label=wish.label))
            return Moved(cancelled=False)
        leaf, text = _place_for(target)
        old_leaf = session.leaf
        made: BranchSummary | None = None
        if self._parts.extending.wants("session_before_tree"):
            try:
                wish, made = await TreeHooks(self._parts).before(wish, leaf)
            except Vetoed:
                return Moved(cancelled=True)
        body = made
        if body is None and wish.summarize:
            body = await self._summarise(leaf, old_leaf, wish.instructions, replace=wish.replace)
            if body is None:
                return Moved(cancelled=True)
        session.branch_to(leaf)
        summary = session.append(body) if body is not None else None
        if wish.label:
            marked = summary.id if summary is not None else target_id
            session.append(Label(target_id=marked, label=wish.label))
        if self._parts.extending.wants("session_tree"):
            await TreeHooks(self._parts).after(old_leaf, summary, by_extension=made is not None)
        return Moved(cancelled=False, text=text, summary_entry_id=summary.id if summary else None)

    async def _summarise(
        self, leaf: str | None, old_leaf: str | None, instructions: str | None, *, replace: bool
    ) -> BranchSummary | None:
        """The summary of what is left behind; None if it was aborted."""
        self._scope = Scope()
        try:
            return await self._scope.run(self._ask(leaf, old_leaf, instructions, replace=replace))
        except Aborted:
            return None
        except SummaryFailed as error:
            raise CommandError(str(error)) from error
        finally:
            self._scope = None

    async def _ask(
        self, leaf: str | None, old_leaf: str | None, instructions: str | None, *, replace: bool
    ) -> BranchSummary:
        from ludolf.session import summary_text as words
        from ludolf.session.compaction import prepare_branch

        session, model = self._parts.session, self._parts.models.require()
        reserve = self._parts.settings.branch_summary.reserve_tokens
        prepared = prepare_branch(
            session.path_to_leaf(),
            session.path_to(leaf),
            (model.context_window or UNKNOWN_WINDOW) - reserve,
            session.omitted,
        )
        if isinstance(prepared, str):
            raise SummaryFailed(prepared)
        request = words.branch_request(prepared.messages, instructions, replace=replace)
        answer = await self._summaries.ask(
            words.SYSTEM_PROMPT, request, min(SUMMARY_LIMIT, model.max_tokens), None
        )
        return BranchSummary(
            from_id=old_leaf or "root",
            summary=words.branch_summary(text_of(answer.content), prepared.files),
            details=prepared.files,
            usage=answer.usage,
            from_hook=False,
        )


def _place_for(target: Entry) -> tuple[str | None, str | None]:
    """Where to stand: before a message that someone wrote, to write it anew; else at the entry."""
    if target.type == "custom_message":
        content = fields(target).get("content")
        return target.parent_id, content if isinstance(content, str) else None
    message = message_of(target) if target.type == "message" else None
    if isinstance(message, UserMessage):
        return target.parent_id, text_of(message.content)
    return target.id, None
