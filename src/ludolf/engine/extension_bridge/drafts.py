"""Store session entries that handlers of extensions returned."""

from typing import Any

from ludolf.base import CommandError
from ludolf.extensions import answers
from ludolf.session.entries import CompactionBody, CustomBody, CustomMessageBody, Entry
from ludolf.session.tree import Session


def store_draft(session: Session, draft: Any) -> Entry | None:
    """Append a draft to the session; returns None if it only changes the context.

    Raises:
        CommandError: the draft asks for a change that sessions do not support.
    """
    match draft:
        case answers.CustomDraft():
            return session.append(CustomBody(custom_type=draft.custom_type, data=draft.data))
        case answers.CustomMessageDraft():
            return session.append(
                CustomMessageBody(
                    custom_type=draft.custom_type,
                    content=draft.content,
                    display=draft.display,
                    details=draft.details,
                )
            )
        case answers.CompactionDraft():
            return session.append(
                CompactionBody(
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
            raise CommandError("context_edit can only take an entry out of the context")
    return None
