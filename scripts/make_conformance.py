"""Makes docs/conformance.md: every requirement of the protocol's documents, and its tests.

Usage: python scripts/make_conformance.py
"""

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conformance.requirements import Later
    from tests.conformance.sections import Requirement

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "conformance.md"
_HEAD = """\
# Conformance

Made by `scripts/make_conformance.py` from `tests/conformance/`; do not edit it by hand.

Five documents describe the protocols that Ludolf implements: **004**, the RPC documentation of pi
0.79.10 in Japanese; **003**, a study of pi's RPC mode in Chinese; **002**, the RPC documentation of
oh-my-pi 12.7.5; **001**, that of pi of December 2025; **000**, the protocol reference of xcsh in
Korean. This page lists each sentence about the behaviour of a program as a requirement, in our own
words, with its place in the document; line numbers of 002 ignore the diff marks.
Each requirement names its dialects and the tests that prove it. The tests run once per dialect and
communicate with the program over pipes; it runs in a thread, or in a process where that is the
subject. If a document contradicts the program that it describes, or if Ludolf differs, a remark
states the actual behaviour, and the tests prove it. `test_coverage.py` fails if a requirement has
no test, or a test has no requirement.

{now} requirements are implemented, {later} are not yet. [compatibility.md](compatibility.md) lists
the intended differences from pi and their reasons.
"""
_LATER = """
## Later

These have no test because the program does not implement them yet.
"""


def render() -> str:
    """The whole page."""
    from tests.conformance.proof import proofs
    from tests.conformance.requirements import LATER, REQUIREMENTS

    tests: dict[str, list[str]] = {}
    for proof in proofs():
        for one in proof.ids:
            place = "" if proof.folder == "conformance" else f"{proof.folder}/"
            tests.setdefault(one, []).append(f"`{place}{proof.module}::{proof.name}`")
    parts = [_HEAD.format(now=len(REQUIREMENTS), later=len(LATER))]
    for document, of_document in groupby(REQUIREMENTS, key=lambda one: one.document):
        parts.append(f"\n## Document {document}\n")
        parts += _places(of_document, tests)
    if LATER:
        parts.append(_LATER)
        parts += _later(LATER)
    return "".join(parts)


def _places(requirements: Iterable["Requirement"], tests: dict[str, list[str]]) -> Iterable[str]:
    for place, at_place in groupby(requirements, key=lambda one: one.place):
        yield f"\n### {place}\n\n"
        rows = [
            (one.id, _said(one), ", ".join(one.dialects), "<br>".join(tests.get(one.id, ())))
            for one in at_place
        ]
        yield from _table(("id", "requirement", "dialects", "tests"), rows)


def _said(requirement: "Requirement") -> str:
    remark = requirement.remark
    return f"{requirement.statement}<br>*Ours:* {remark}" if remark else requirement.statement


def _later(later: Iterable["Later"]) -> Iterable[str]:
    for reason, of_reason in groupby(later, key=lambda one: one.reason):
        yield f"\n### Because {reason}\n\n"
        rows = [
            (
                one.requirement.id,
                f"{one.requirement.document}: {one.requirement.place}",
                one.requirement.statement,
            )
            for one in of_reason
        ]
        yield from _table(("id", "document and place", "requirement"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n"
    for row in rows:
        cells = (cell.replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(render())
