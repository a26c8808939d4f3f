"""The thread between requirements and tests: a test names what it proves."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tests.conformance.elsewhere import ELSEWHERE
from tests.conformance.requirements import BY_ID
from tests.conformance.sections import ALL, Dialect

HERE = Path(__file__).parent
_MARK = "proves"
Test = TypeVar("Test", bound=Callable[..., Any])


class Proof(msgspec.Struct, frozen=True):
    """A test and the requirements that it proves; `folder` is the one below `tests`."""

    module: str
    name: str
    ids: tuple[str, ...]
    folder: str = "conformance"

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        return dialects_of(self.ids)


def proves(*ids: str) -> Callable[[Test], Test]:
    """Name the requirements that a test proves; it runs in every dialect that they all hold in.

    A statement that several documents make has one test with one such mark for each of them; it
    runs in the dialects of all marks.
    """

    def mark(test: Test) -> Test:
        setattr(test, _MARK, (ids, *groups_of(test)))
        return test

    return mark


def groups_of(test: object) -> tuple[tuple[str, ...], ...]:
    """What a test proves, by mark; nothing unless it was marked."""
    groups: tuple[tuple[str, ...], ...] = getattr(test, _MARK, ())
    return groups


def dialects_of(ids: tuple[str, ...]) -> tuple[Dialect, ...]:
    """The dialects in which all of these hold. An unknown id does not narrow them."""
    known = [BY_ID[one].dialects for one in ids if one in BY_ID]
    return tuple(dialect for dialect in ALL if all(dialect in each for each in known))


def proofs() -> Iterator[Proof]:
    """Every test that proves something: those of this folder by file, then those elsewhere."""
    for path in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"tests.conformance.{path.stem}")
        for name, found in vars(module).items():
            if name.startswith("test_"):
                yield from (Proof(path.stem, name, ids) for ids in groups_of(found))
    for (folder, stem), tests in ELSEWHERE.items():
        for name, ids in tests.items():
            yield Proof(stem, name, ids, folder)
