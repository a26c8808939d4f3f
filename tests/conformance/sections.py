"""What a requirement is, and how pages of them are written down."""

import re
from typing import Literal

import msgspec

Dialect = Literal["pi", "pi-delta", "omp", "xcsh", "pi-early"]
Area = Literal["core", "export", "extensions"]

BOTH: tuple[Dialect, ...] = ("pi", "pi-delta")
ONLY_PI: tuple[Dialect, ...] = ("pi",)
OMP: tuple[Dialect, ...] = ("omp",)
XCSH: tuple[Dialect, ...] = ("xcsh",)
EARLY: tuple[Dialect, ...] = ("pi-early",)
ALL: tuple[Dialect, ...] = (*BOTH, *OMP, *XCSH, *EARLY)
_ROW = re.compile(r"(RPC\d-[a-z-]+-\d\d) (\S.*?)(?:\s+Ours: (\S.*))?", re.DOTALL)


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a document demands. `place` leads a reader to the sentence.

    `remark` says what holds here where the document and the program it is about disagree, or
    where ours does otherwise on purpose; the tests prove the remark then.
    """

    id: str
    document: str
    place: str
    statement: str
    remark: str
    dialects: tuple[Dialect, ...]
    area: Area


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of one place: an id and a sentence a line, what goes on is indented.

    Behind `Ours: ` comes the remark.
    """

    document: str
    place: str
    text: str
    dialects: tuple[Dialect, ...] = BOTH
    area: Area = "core"

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        rows = re.split(r"\n(?=\S)", self.text.strip())
        return tuple(self._read(row) for row in rows)

    def _read(self, row: str) -> Requirement:
        found = _ROW.fullmatch(row)
        assert found, f"no requirement: {row}"
        return Requirement(
            id=found[1],
            document=self.document,
            place=self.place,
            statement=" ".join(found[2].split()),
            remark=" ".join((found[3] or "").split()),
            dialects=self.dialects,
            area=self.area,
        )
