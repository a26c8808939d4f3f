"""Approval rules: what they allow, what they cannot be talked into, and who may change them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ludolf.base import ConfigError, dumps
from ludolf.config.settings.approval_rules import (
    Approval,
    ApprovalRule,
    CallFacts,
    deadline_ms,
    judge,
    literal_words,
    read_approvals,
)
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles


def bash(command: str) -> CallFacts:
    return CallFacts(tool="bash", read_only=False, command=command, cwd="/work", home="/home/ada")


def file(tool: str, *paths: str) -> CallFacts:
    return CallFacts(
        tool=tool,
        read_only=tool == "read",
        has_path=True,
        paths=paths,
        cwd="/work",
        home="/home/ada",
    )


def rules(*given: dict[str, Any], mode: Any = None) -> tuple[Approval, ...]:
    return (Approval(mode=mode, rules=tuple(ApprovalRule(**one) for one in given)),)


# ---------------------------------------------------------------- commands


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("git status", ("git", "status")),
        ("  git\t status  ", ("git", "status")),
        ("'git' \"status\"", ("git", "status")),
        ("echo 'a; b' \"c & d\"", ("echo", "a; b", "c & d")),
        ("grep -rn --include=*.py x", None),
        ("npm run build:all -- --x=1,2", ("npm", "run", "build:all", "--", "--x=1,2")),
        ("echo ''", ("echo", "")),
    ],
)
def test_a_simple_command_is_its_words(text: str, words: tuple[str, ...] | None) -> None:
    assert literal_words(text) == words


_PLAIN = ("a", "-b", "=c", "x=y", "./d", "'e ; f'", '"g & h"', "''", "%i", "+j@k", " ", "\t", "  ")
_ODD = (
    ";",
    "&",
    "|",
    "$x",
    "`",
    "\\",
    "'",
    '"',
    "(",
    ")",
    "{a,b}",
    "<",
    ">",
    "*",
    "~",
    "!",
    "#",
    "\u00e9",
)


@settings(max_examples=120)
@given(st.lists(st.sampled_from(_PLAIN * 8 + _ODD), max_size=8).map("".join))
def test_a_shell_sees_the_same_words(text: str) -> None:
    words = literal_words(text)
    assume(words is not None)
    command = f"printf '%s\\0' -- {text}"
    told = subprocess.run(["bash", "-c", command], capture_output=True, check=True, cwd="/proc")
    assert told.stdout.decode().split("\0")[1:-1] == list(words or ())


TRICKS = (
    "git status; rm -rf x",
    "git status && rm x",
    "git status || rm x",
    "git status & rm x",
    "git status | sh",
    "git status\nrm x",
    "git status\rrm x",
    "git status $(rm x)",
    "git status `rm x`",
    'git status "$(rm x)"',
    'git status "`rm x`"',
    "git status ${x}",
    "git status <(rm x)",
    "git status > /etc/passwd",
    "git status < x",
    "git status \\\nrm",
    "git status #",
    "git stat\\us",
    "git status 'open",
    'git status "a\\"; rm x"',
    "git status $'a'",
    "git status ~/x",
    "git status *",
    "git status {a,b}",
    "git status !!",
    "LD_PRELOAD=./evil.so git status",
    "'LD_PRELOAD=x' git status",
    "{ git status; }",
    "(git status)",
    "! git status",
    "git status\u2028rm x",
    "git\u00a0status",
    "git status\x00",
    "=git status",
)


@pytest.mark.parametrize("command", TRICKS)
def test_an_allowed_command_allows_nothing_that_is_more(command: str) -> None:
    allowed = rules(
        {"tool": "bash", "command": "git status", "action": "allow"},
        {"tool": "bash", "command": "git status *", "action": "allow"},
    )
    assert judge(allowed, bash("git status")) == "allow"
    assert judge(allowed, bash(command)) == "ask"


@pytest.mark.parametrize("command", ["git statusx", "git", "git push", "/tmp/git status", "gits"])
def test_an_allowed_command_allows_no_other(command: str) -> None:
    allowed = rules({"tool": "bash", "command": "git status *", "action": "allow"})
    assert judge(allowed, bash(command)) == "ask"


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("git *", "git"),
        ("git *", "git push --force"),
        ("git log *", "git log -n 5"),
        ("npm run test:*", "npm run test:unit"),
        ("pytest tests/*.py", "pytest tests/a.py"),
        ("*", "anything at all"),
    ],
)
def test_each_word_is_a_glob_and_a_last_star_is_any_more_words(pattern: str, command: str) -> None:
    allowed = rules({"tool": "bash", "command": pattern, "action": "allow"})
    assert judge(allowed, bash(command)) == "allow"


@pytest.mark.parametrize("command", ["rm -rf x", "/bin/rm x", "'rm' x", "rm"])
def test_a_forbidden_command_is_denied(command: str) -> None:
    say = rules(
        {"tool": "bash", "command": "rm *", "action": "deny"}, {"tool": "*", "action": "allow"}
    )
    assert judge(say, bash(command)) == "deny"
    assert judge(say, bash("ls -l")) == "allow"


@pytest.mark.parametrize("command", ["ls; rm -rf x", "$(rm x)", "r\\m x", "ls\nrm x"])
def test_what_may_hold_a_forbidden_command_is_asked_about(command: str) -> None:
    say = rules(
        {"tool": "bash", "command": "rm *", "action": "deny"}, {"tool": "*", "action": "allow"}
    )
    assert judge(say, bash(command)) == "ask"


def test_where_nobody_is_asked_what_may_be_forbidden_is_denied() -> None:
    say = rules({"tool": "bash", "command": "rm *", "action": "deny"}, mode="never")
    assert judge(say, bash("rm x")) == "deny"
    assert judge(say, bash("ls; rm x")) == "deny"
    assert judge(say, bash("ls")) == "allow"


# ---------------------------------------------------------------- paths


def test_a_path_rule_counts_from_the_working_folder_and_stops_at_slashes() -> None:
    say = rules({"tool": "write", "path": "src/*", "action": "allow"})
    assert judge(say, file("write", "/work/src/a.py")) == "allow"
    assert judge(say, file("write", "/work/src/deep/a.py")) == "ask"
    assert judge(say, file("write", "/other/src/a.py")) == "ask"
    deep = rules({"tool": "write", "path": "./src/**", "action": "allow"})
    assert judge(deep, file("write", "/work/src/deep/a.py")) == "allow"
    assert judge(deep, file("write", "/work/SRC/a.py")) == "ask"


def test_a_link_is_allowed_only_if_both_its_names_are() -> None:
    say = rules({"tool": "write", "path": "src/**", "action": "allow"})
    assert judge(say, file("write", "/work/src/link", "/etc/passwd")) == "ask"
    assert judge(say, file("write", "/work/src/link", "/work/src/real")) == "allow"


def test_a_link_is_forbidden_if_one_of_its_names_is() -> None:
    say = rules(
        {"tool": "*", "path": "~/.ssh/**", "action": "deny"}, {"tool": "*", "action": "allow"}
    )
    assert judge(say, file("read", "/work/a", "/home/ada/.ssh/id")) == "deny"
    assert judge(say, file("read", "/work/a", "/work/b")) == "allow"


def test_a_name_with_a_line_break_is_no_way_around_a_path_rule() -> None:
    say = rules(
        {"tool": "*", "path": "secret/**", "action": "deny"}, {"tool": "*", "action": "allow"}
    )
    assert judge(say, file("read", "/work/secret/a\nb")) == "deny"


def walk(tool: str, path: str) -> CallFacts:
    return CallFacts(
        tool=tool,
        read_only=True,
        has_path=True,
        paths=(path,),
        walks=True,
        cwd="/work",
        home="/home/ada",
    )


def test_a_rule_for_all_in_a_folder_is_also_one_for_the_folder_where_it_forbids() -> None:
    say = rules(
        {"tool": "*", "path": "~/.ssh/**", "action": "deny"},
        {"tool": "ls", "path": "src/**", "action": "allow"},
    )
    assert judge(say, file("ls", "/home/ada/.ssh")) == "deny"
    assert judge(say, walk("grep", "/home/ada/.ssh")) == "deny"
    assert judge(say, file("ls", "/work/src")) == "ask"


@pytest.mark.parametrize(
    ("pattern", "folder", "reaches"),
    [
        ("~/.ssh/**", "/home/ada", True),
        ("~/.ssh/**", "/", True),
        ("~/.ssh/**", "/home/ada/code", False),
        ("~/.ssh/**", "/home/bob", False),
        ("secret/*.key", "/work", True),
        ("secret/*.key", "/work/secret", True),
        ("secret/*.key", "/work/secret/deep", False),
        ("secret/*.key", "/work/src", False),
        ("s*/{a,b}/key", "/work/src/b", True),
        ("s*/{a,b}/key", "/work/src/c", False),
        ("**/.env", "/work/src", True),
        ("**/.env", "/other", False),
        ("/etc/shadow", "/etc", True),
        ("/etc/shadow", "/var", False),
    ],
)
def test_a_search_that_may_come_upon_what_is_forbidden_is_asked_about(
    pattern: str, folder: str, reaches: bool
) -> None:
    forbidding = {"tool": "*", "path": pattern, "action": "deny"}
    say = rules(forbidding, {"tool": "*", "action": "allow"})
    assert judge(say, walk("grep", folder)) == ("ask" if reaches else "allow")
    unasked = rules(forbidding, mode="never")
    assert judge(unasked, walk("find", folder)) == ("deny" if reaches else "allow")


def test_what_is_no_file_fits_no_path_that_is_allowed() -> None:
    say = rules(
        {"tool": "read", "path": "/**", "action": "allow"},
        {"tool": "write", "path": "/**", "action": "deny"},
        {"tool": "*", "action": "allow"},
    )
    document = CallFacts(tool="read", read_only=True, has_path=True, cwd="/work")
    assert judge(say, document) == "allow"  # by the last rule, which speaks of no path
    assert judge(say, CallFacts(tool="write", read_only=False, has_path=True, cwd="/work")) == "ask"


# ---------------------------------------------------------------- modes


def test_modes_ask_about_what_they_say() -> None:
    reader, writer = file("read", "/work/a"), file("write", "/work/a")
    unknown = CallFacts(tool="deploy", read_only=False)
    expected = {
        "never": ("allow", "allow", "allow"),
        "on-command": ("allow", "allow", "ask"),
        "on-write": ("allow", "ask", "ask"),
        "always": ("ask", "ask", "ask"),
        "rules": ("ask", "ask", "ask"),
    }
    for mode, verdicts in expected.items():
        say = rules(mode=mode)
        assert tuple(judge(say, call) for call in (reader, writer, unknown)) == verdicts, mode


def test_the_first_rule_that_fits_decides() -> None:
    say = rules(
        {"tool": "bash", "command": "git push *", "action": "deny"},
        {"tool": "bash", "command": "git *", "action": "allow"},
        {"tool": "read", "action": "allow"},
    )
    assert judge(say, bash("git push")) == "deny"
    assert judge(say, bash("git log")) == "allow"
    assert judge(say, bash("ls")) == "ask"
    assert judge(say, file("read", "/work/a")) == "allow"


def test_rules_can_tighten_other_modes_but_not_loosen_them() -> None:
    given = (
        {"tool": "read", "path": "secret/**", "action": "ask"},
        {"tool": "bash", "command": "rm *", "action": "deny"},
        {"tool": "bash", "action": "allow"},
    )
    assert judge(rules(*given, mode="on-write"), bash("ls")) == "ask"
    assert judge(rules(*given, mode="on-write"), bash("rm x")) == "deny"
    assert judge(rules(*given, mode="on-write"), file("read", "/work/secret/a")) == "ask"
    assert judge(rules(*given, mode="always"), bash("ls")) == "ask"


# ---------------------------------------------------------------- settings


def settings_files(root: Path, user: Any, project: Any, *, trusted: bool = True) -> SettingsFiles:
    home = Home(agent=root / "agent", cwd=root / "work", user=root)
    for path, value in (
        (home.settings_file, user),
        (home.project_settings_file, project),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dumps({} if value is None else {"approval": value}))
    return SettingsFiles(home, trusted=trusted)


ALLOW_ALL = {"mode": "rules", "rules": [{"tool": "*", "action": "allow"}]}


def test_a_project_cannot_loosen_what_the_user_says(tmp_path: Path) -> None:
    files = settings_files(tmp_path, {"mode": "on-write"}, ALLOW_ALL)
    assert judge(read_approvals(files, None), bash("ls")) == "ask"
    files = settings_files(tmp_path, {"mode": "always"}, {"mode": "never"})
    assert judge(read_approvals(files, None), file("read", "/work/a")) == "ask"


def test_a_project_can_tighten_what_the_user_says(tmp_path: Path) -> None:
    files = settings_files(tmp_path, ALLOW_ALL, {"mode": "on-write"})
    assert judge(read_approvals(files, None), bash("ls")) == "ask"
    deny = {"mode": "never", "rules": [{"tool": "bash", "command": "rm *", "action": "deny"}]}
    files = settings_files(tmp_path, None, deny)
    assert judge(read_approvals(files, None), bash("rm x")) == "deny"
    assert judge(read_approvals(files, None), bash("ls")) == "allow"
    untrusted = settings_files(tmp_path, None, deny, trusted=False)
    assert read_approvals(untrusted, None) == ()


def test_the_shorter_deadline_counts(tmp_path: Path) -> None:
    files = settings_files(
        tmp_path, {"mode": "always", "timeoutMs": 9000}, {"mode": "always", "timeoutMs": 50_000}
    )
    assert deadline_ms(read_approvals(files, None)) == 9000
    assert deadline_ms((Approval(mode="always"),)) == 300_000


def test_the_command_line_replaces_the_mode_of_the_user_only(tmp_path: Path) -> None:
    files = settings_files(tmp_path, {"mode": "always"}, {"mode": "on-write"})
    say = read_approvals(files, "never")
    assert judge(say, file("read", "/work/a")) == "allow"
    assert judge(say, bash("ls")) == "ask"


def test_rules_without_a_mode_are_the_mode(tmp_path: Path) -> None:
    files = settings_files(tmp_path, {"rules": [{"tool": "read", "action": "allow"}]}, None)
    say = read_approvals(files, None)
    assert judge(say, file("read", "/work/a")) == "allow"
    assert judge(say, bash("ls")) == "ask"


def test_without_settings_nothing_is_asked(tmp_path: Path) -> None:
    assert read_approvals(settings_files(tmp_path, None, None), None) == ()
    assert judge((), bash("rm -rf /")) == "allow"


@pytest.mark.parametrize(
    "value",
    [
        "always",
        {"mode": "onwrite"},
        {"Mode": "always"},
        {"mode": "rules", "rules": [{"tool": "bash", "comand": "ls", "action": "allow"}]},
        {"mode": "rules", "rules": [{"tool": "bash", "action": "permit"}]},
        {"mode": "rules", "rules": [{"action": "allow"}]},
        {"mode": "always", "timeoutMs": 0},
        [],
    ],
)
def test_a_slip_in_the_settings_is_an_error_and_never_a_default(value: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"settings\.json: approval"):
        read_approvals(settings_files(tmp_path, value, None), None)
    with pytest.raises(ConfigError, match=r"settings\.json: approval"):
        read_approvals(settings_files(tmp_path, None, value), None)


def test_an_unknown_mode_on_the_command_line_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never, on-command, on-write, always, rules"):
        read_approvals(settings_files(tmp_path, None, None), "sometimes")


def test_a_default_mode_holds_until_the_user_chooses_another(tmp_path: Path) -> None:
    files = settings_files(tmp_path, {"timeoutMs": 9000}, {"mode": "never"})
    assert read_approvals(files, None, "on-write") == (Approval(mode="on-write", timeout_ms=9000),)
    assert read_approvals(files, "never", "on-write") == ()
    files = settings_files(tmp_path, {"mode": "never"}, None)
    assert read_approvals(files, None, "on-write") == ()
    files = settings_files(tmp_path, ALLOW_ALL | {"mode": None}, None)
    assert judge(read_approvals(files, None, "on-write"), bash("ls")) == "allow"
