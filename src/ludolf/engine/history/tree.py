"""Navigate the session tree, with an optional summary of the branch that is left."""

from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.messages import UserMessage, text_of
from ludolf.base import CommandError
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.feature import TreeMove, Vetoed
from ludolf.engine.history.summaries import Summaries, SummaryFailed
from ludolf.protocol.results import Moved
from ludolf.session.entries import BranchSummaryBody, Entry, LabelBody, fields, message_of

UNKNOWN_WINDOW = 128_000
SUMMARY_LIMIT = 4096


class TreeNavigation(Component):
    """Moves to another entry."""

    def __init__(self, bundles: Bundles, summaries: Summaries, work: Scope) -> None:
        super().__init__(bundles)
        self._summaries = summaries
        self._work = work

    async def go(self, wish: TreeMove) -> Moved:
        """Raises:
        CommandError: the entry does not exist, or the summary failed.
        """
        session, target_id = self.conversation.session, wish.target_id
        target = session.get(target_id)
        if target is None:
            raise CommandError(f"Entry not found: {target_id}")
        refusal = session.refusal() if wish.summarize or wish.label else None
        if refusal is not None:
            raise CommandError(refusal, code=session.refusal_code)
        if target_id == session.leaf:
            if wish.label:
                session.append(LabelBody(target_id=target_id, label=wish.label))
            return Moved(cancelled=False)
        leaf, text = _leaf_for(target)
        old_leaf = session.leaf
        made: BranchSummaryBody | None = None
        try:
            for feature in self.features.hooks["before_tree"]:
                wish, written = await feature.before_tree(wish, leaf)
                made = made or written
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
            session.append(LabelBody(target_id=marked, label=wish.label))
        for feature in self.features.hooks["after_tree"]:
            await feature.after_tree(old_leaf, summary, by_feature=made is not None)
        return Moved(cancelled=False, text=text, summary_entry_id=summary.id if summary else None)

    async def _summarise(
        self, leaf: str | None, old_leaf: str | None, instructions: str | None, *, replace: bool
    ) -> BranchSummaryBody | None:
        """Summarise the branch that is left; returns None if it was aborted."""
        self.conversation.summarising.add("branch")
        try:
            with self._work.open() as scope:
                return await scope.run(self._ask(leaf, old_leaf, instructions, replace=replace))
        except Aborted:
            return None
        except SummaryFailed as error:
            raise CommandError(str(error)) from error
        finally:
            self.conversation.summarising.discard("branch")

    async def _ask(
        self, leaf: str | None, old_leaf: str | None, instructions: str | None, *, replace: bool
    ) -> BranchSummaryBody:
        from ludolf.session import summary_text as words
        from ludolf.session.compaction import prepare_branch

        session, model = self.conversation.session, self.models.require()
        reserve = self.workspace.settings.branch_summary.reserve_tokens
        prepared = prepare_branch(
            session.path_to_leaf(),
            session.path_to(leaf),
            (model.context_window or UNKNOWN_WINDOW) - reserve,
            session.omitted,
        )
        if isinstance(prepared, str):
            raise SummaryFailed(prepared)
        request = words.branch_request(prepared.messages, instructions, replace=replace)
        most = min(SUMMARY_LIMIT, model.max_tokens)
        answer = await self._summaries.ask(request, most, None)
        return BranchSummaryBody(
            from_id=old_leaf or "root",
            summary=words.branch_summary(text_of(answer.content), prepared.files),
            details=prepared.files,
            usage=answer.usage,
            from_hook=False,
        )


def _leaf_for(target: Entry) -> tuple[str | None, str | None]:
    """Return the new leaf, and the text to edit if the target is a user's message."""
    if target.type == "custom_message":
        content = fields(target).get("content")
        return target.parent_id, content if isinstance(content, str) else None
    message = message_of(target) if target.type == "message" else None
    if isinstance(message, UserMessage):
        return target.parent_id, text_of(message.content)
    return target.id, None
