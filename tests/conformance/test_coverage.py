"""Every requirement has a test in each of its dialects, and every test a requirement."""

from collections import Counter

import pytest

from tests.conformance.proof import HERE, Proof, proofs
from tests.conformance.requirements import BY_ID, LATER, REQUIREMENTS


@pytest.fixture(scope="module")
def found() -> tuple[Proof, ...]:
    return tuple(proofs())


def test_every_requirement_is_proven_in_each_of_its_dialects(found: tuple[Proof, ...]) -> None:
    proven = {(one, dialect) for proof in found for one in proof.ids for dialect in proof.dialects}
    needed = {(one.id, dialect) for one in REQUIREMENTS for dialect in one.dialects}
    assert sorted(needed - proven) == []


def test_every_test_names_requirements_that_exist(found: tuple[Proof, ...]) -> None:
    unknown = [f"{proof.name}: {one}" for proof in found for one in proof.ids if one not in BY_ID]
    assert unknown == []


def test_every_test_runs_in_some_dialect(found: tuple[Proof, ...]) -> None:
    assert [proof.name for proof in found if not proof.dialects] == []


def test_nothing_that_comes_later_is_proven_already(found: tuple[Proof, ...]) -> None:
    later = {one.requirement.id for one in LATER}
    assert sorted(later & {one for proof in found for one in proof.ids}) == []
    assert all(one.reason for one in LATER)


def test_no_id_and_no_sentence_stands_twice() -> None:
    all_of_them = [*REQUIREMENTS, *(one.requirement for one in LATER)]
    ids = Counter(one.id for one in all_of_them)
    assert [name for name, count in ids.items() if count > 1] == []
    places = Counter((one.place, one.statement) for one in all_of_them)
    assert [place for place, count in places.items() if count > 1] == []


def test_a_test_file_without_proofs_is_none_of_ours(found: tuple[Proof, ...]) -> None:
    own = {"test_coverage", "test_page"}
    files = {path.stem for path in HERE.glob("test_*.py")} - own
    assert files == {proof.module for proof in found if proof.folder == "conformance"}


def test_tests_elsewhere_that_are_named_exist(found: tuple[Proof, ...]) -> None:
    missing = []
    for proof in found:
        text = (HERE.parent / proof.folder / f"{proof.module}.py").read_text()
        if f"def {proof.name}(" not in text:
            missing.append(f"{proof.module}::{proof.name}")
    assert missing == []
