"""What extensions may say about a walk in the tree."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from ludolf.engine.extension_bridge.hook_points import Vetoed
from ludolf.engine.parts import Parts
from ludolf.session.entries import BranchSummary, Entry

if TYPE_CHECKING:
    from ludolf.extensions.answers import TreeAnswer
    from ludolf.extensions.runner import Runner


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A walk as it was asked for."""

    target_id: str
    summarize: bool = False
    instructions: str | None = None
    replace: bool = False
    label: str | None = None


class TreeHooks:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @property
    def _runner(self) -> "Runner":
        return self._parts.extending.runner

    async def before(self, wish: Wish, leaf: str | None) -> tuple[Wish, BranchSummary | None]:
        """The walk as extensions want it, and a summary if one of them made it.

        Raises:
            Vetoed: one of them does not want it.
        """
        from ludolf.extensions import points
        from ludolf.extensions.payloads import SessionBeforeTree, TreePlan
        from ludolf.extensions.session_view import views

        session = self._parts.session
        left = _left_behind(session.path_to_leaf(), session.path_to(leaf))
        plan = TreePlan(
            target_id=wish.target_id,
            old_leaf_id=session.leaf,
            common_ancestor_id=left[0].parent_id if left else session.leaf,
            entries_to_summarize=views(left),
            user_wants_summary=wish.summarize,
            custom_instructions=wish.instructions,
            replace_instructions=wish.replace,
            label=wish.label,
        )
        answer = await points.before_tree(self._runner, SessionBeforeTree(preparation=plan))
        if answer.cancel:
            raise Vetoed
        changed = _changed(wish, answer)
        if answer.summary is None or not wish.summarize:
            return changed, None
        return changed, BranchSummary(
            from_id=session.leaf or "root",
            summary=answer.summary.summary,
            details=answer.summary.details,
            usage=answer.summary.usage,
            from_hook=True,
        )

    async def after(
        self, old_leaf: str | None, summary: Entry | None, *, by_extension: bool
    ) -> None:
        from ludolf.extensions.payloads import SessionTree
        from ludolf.extensions.session_view import EntryView

        await self._runner.emit(
            SessionTree(
                new_leaf_id=self._parts.session.leaf,
                old_leaf_id=old_leaf,
                summary_entry=EntryView(summary) if summary is not None else None,
                from_extension=by_extension,
            )
        )


def _changed(wish: Wish, answer: "TreeAnswer") -> Wish:
    replace = answer.replace_instructions
    return structs.replace(
        wish,
        instructions=answer.custom_instructions or wish.instructions,
        replace=wish.replace if replace is None else replace,
        label=answer.label or wish.label,
    )


def _left_behind(old: Sequence[Entry], new: Sequence[Entry]) -> list[Entry]:
    kept = {entry.id for entry in new}
    return [entry for entry in old if entry.id not in kept]
