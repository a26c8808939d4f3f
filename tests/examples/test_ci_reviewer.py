"""The reviewer reports what it finds in a change and where, and ends with a code that says so."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from ludolf.client import Record
from tests.examples.ground import EXAMPLES, Ground
from tests.process.harness import Finished

REVIEWER = EXAMPLES / "ci_reviewer" / "review.py"
WORKFLOW = EXAMPLES / "ci_reviewer" / "workflow.yml"
BUG = {
    "path": "mean.py",
    "line": 2,
    "severity": "error",
    "title": "Wrong divisor: len - 1, not len",
    "text": "The mean is too large.\n::error::100%",
}


@pytest.fixture
def repository(ground: Ground) -> Ground:
    """A branch that breaks a function of its base."""
    _git(ground, "init", "-q", "-b", "main")
    _commit(ground, {"mean.py": "def mean(xs):\n    return sum(xs) / len(xs)\n", "old.py": "x\n"})
    _git(ground, "update-ref", "refs/remotes/origin/main", "HEAD")
    _git(ground, "checkout", "-q", "-b", "change")
    _commit(ground, {"mean.py": "def mean(xs):\n    return sum(xs) / (len(xs) - 1)\n"})
    return ground


def _git(ground: Ground, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    assert ground.run("git", *who, *words).code == 0


def _commit(ground: Ground, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = ground.work / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    _git(ground, "add", "--all")
    _git(ground, "commit", "-q", "-m", "work")


def _finds(*findings: Record) -> Record:
    return {"content": [{"tool": "final_answer", "args": {"value": findings}}]}


def _looks(path: str) -> Record:
    return {"content": [{"tool": "show", "args": {"path": path}}]}


def _review(ground: Ground, *more: str) -> Finished:
    command = (sys.executable, str(REVIEWER), "--base", "origin/main")
    return ground.run(*command, "--model", "ludolf/scripted", *more)


def test_a_finding_is_shown_at_its_line_and_fails_the_check(repository: Ground) -> None:
    repository.script(_looks("mean.py"), _finds(BUG))
    done = _review(repository)
    assert (done.code, done.stderr) == (1, "Findings: 1\n")
    assert done.stdout.startswith(b"mean.py:2: error: Wrong divisor: len - 1, not len\n")


def test_in_ci_a_finding_is_one_annotation_whatever_it_says(repository: Ground) -> None:
    repository.env["GITHUB_ACTIONS"] = "true"
    repository.script(_finds(BUG))
    assert _review(repository).stdout.decode() == (
        "::error file=mean.py,line=2,title=Wrong divisor%3A len - 1%2C not len"
        "::The mean is too large.%0A::error::100%25\n"
    )


@pytest.mark.parametrize(
    ("severity", "limit", "code"),
    [("warning", "error", 0), ("warning", "warning", 1), ("error", "never", 0)],
)
def test_what_fails_the_check_can_be_chosen(
    repository: Ground, severity: str, limit: str, code: int
) -> None:
    repository.script(_finds({**BUG, "severity": severity}))
    assert _review(repository, "--fail-on", limit).code == code


def test_a_clean_change_passes(repository: Ground) -> None:
    repository.script(_finds())
    done = _review(repository)
    assert (done.code, done.stdout) == (0, b"")


def test_what_is_said_of_lines_that_nobody_sees_is_left_out(repository: Ground) -> None:
    repository.script(_finds({**BUG, "line": 99}, {**BUG, "path": "old.py"}))
    done = _review(repository)
    assert (done.code, done.stdout) == (0, b"")


def test_an_answer_that_does_not_fit_is_asked_for_again(repository: Ground) -> None:
    repository.script(_finds({**BUG, "line": "two"}), _finds(BUG))
    assert _review(repository).code == 1


@pytest.mark.parametrize(
    "replies", [[{"text": "Fine!"}], [{"error": {"text": "No such key", "status": 401}}]]
)
def test_no_review_is_not_the_same_as_a_good_one(
    repository: Ground, replies: Sequence[Record]
) -> None:
    repository.script(*replies)
    done = _review(repository)
    assert (done.code, done.stdout) == (2, b"")
    assert done.stderr.startswith("Review failed: ")


def test_a_base_that_is_not_there_is_told(repository: Ground) -> None:
    done = _review(repository, "--base", "nowhere")
    assert done.code == 2
    assert "nowhere" in done.stderr


def test_the_model_sees_what_is_committed_and_nothing_else(repository: Ground) -> None:
    (repository.root / "secret").write_text("hidden")
    (repository.work / "untracked").write_text("hidden")
    repository.env["PYTHONPATH"] += f"{os.pathsep}{REVIEWER.parent}"
    show = "import review, sys; print(review.show(*sys.argv[1:]))"
    assert repository.run(sys.executable, "-c", show, "mean.py").stdout.startswith(b"1: def mean")
    for path in ("../secret", str(repository.root / "secret"), "untracked", "--help"):
        done = repository.run(sys.executable, "-c", show, path)
        assert (done.code, done.stdout) == (1, b"")


def test_a_large_change_is_asked_about_in_parts(repository: Ground) -> None:
    _commit(repository, {f"file{number}.py": "x = 1\n" * 6000 for number in range(3)})
    repository.script(_finds({**BUG, "path": "file1.py"}))
    done = _review(repository)
    assert done.stderr == "Findings: 3\n"  # each part got this answer


def test_the_workflow_runs_the_reviewer_of_the_base(repository: Ground, tmp_path: Path) -> None:
    steps: list[Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]["review"]["steps"]
    (step,) = [one for one in steps if one.get("name") == "Review"]
    _git(repository, "checkout", "-q", "main")
    _commit(repository, {".github/review.py": REVIEWER.read_text()})
    _git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    _git(repository, "checkout", "-q", "change")
    _git(repository, "rebase", "-q", "main")
    _commit(repository, {".github/review.py": "raise SystemExit(0)\n"})
    repository.script(_finds(BUG))
    place = {"GITHUB_BASE_REF": "main", "RUNNER_TEMP": str(tmp_path), "GITHUB_ACTIONS": "true"}
    repository.env |= {**place, "REVIEW_MODEL": "ludolf/scripted"}
    repository.env["PATH"] = f"{Path(sys.executable).parent}:{repository.env['PATH']}"
    done = repository.run("bash", "-e", "-c", step["run"])
    assert (done.code, done.stderr) == (1, "Findings: 1\n")
