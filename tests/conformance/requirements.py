"""Every requirement of documents 000 to 004: those that hold now, and those that come later."""

from collections.abc import Iterable

import msgspec

from tests.conformance import (
    document_000_events,
    document_000_protocol,
    document_001,
    document_002_events,
    document_002_prompting,
    document_002_work,
    document_003,
    document_004_events,
    document_004_extensions,
    document_004_prompting,
    document_004_sessions,
    document_004_state,
)
from tests.conformance.sections import Requirement, Section


class Later(msgspec.Struct, frozen=True):
    """A requirement that has no test yet, and why."""

    requirement: Requirement
    reason: str


def _read(sections: Iterable[Section]) -> tuple[Requirement, ...]:
    return tuple(one for section in sections for one in section.requirements)


REQUIREMENTS: tuple[Requirement, ...] = _read(
    (
        *document_000_protocol.SECTIONS,
        *document_000_events.SECTIONS,
        *document_001.SECTIONS,
        *document_002_prompting.SECTIONS,
        *document_002_work.SECTIONS,
        *document_002_events.SECTIONS,
        *document_003.SECTIONS,
        *document_003.EXTENSIONS,
        *document_003.EXPORT,
        *document_004_prompting.SECTIONS,
        *document_004_prompting.EXTENSIONS,
        *document_004_state.SECTIONS,
        *document_004_sessions.SECTIONS,
        *document_004_sessions.EXTENSIONS,
        *document_004_sessions.EXPORT,
        *document_004_events.SECTIONS,
        *document_004_extensions.EXTENSIONS,
    )
)

# What is not in the program yet. When it is, it moves up into REQUIREMENTS, and the tests that
# were missing are written.
LATER: tuple[Later, ...] = ()

BY_ID: dict[str, Requirement] = {one.id: one for one in REQUIREMENTS}
