"""Home folders, and paths that begin with a tilde."""

import os
from pathlib import Path

import pytest

from ludolf.base import expand_user, user_dir


@pytest.mark.parametrize(
    "path", ["~", "~/", "~/a", "~//a", "a/~", "", "~root", "~root/a", "~no such user/a"]
)
def test_a_tilde_is_expanded_as_by_python_with_the_given_home(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/a/")
    assert expand_user(path, "/home/a/") == os.path.expanduser(path)
    assert expand_user("~/x", Path("/")) == "/x"


@pytest.mark.parametrize("path", ["~\0", "~\ud800/a"])
def test_a_name_that_no_user_can_have_stays(path: str) -> None:
    assert expand_user(path, "/home/a") == path


def test_the_home_is_that_of_the_environment_else_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/elsewhere")
    assert user_dir({"HOME": "/home/a"}) == Path("/home/a")
    assert user_dir({"USERPROFILE": "/home/b"}) == Path("/home/b")
    monkeypatch.delenv("HOME")
    assert user_dir({}) == Path.home()
