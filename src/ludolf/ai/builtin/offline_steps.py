"""Steps of the offline model: tool calls, and the text that reports their results."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

Job = Literal["read", "ls", "grep", "find", "write", "edit", "bash"]
_SHOWN_LINES = 40
_SHOWN_CHARACTERS = 4_000
_SEARCH_LIMIT = 100
_FIND_LIMIT = 300
_NOTICE = re.compile(r"\[.*\]|No files found.*")


class StepCall(msgspec.Struct, frozen=True):
    """Work for one tool; the active tools determine which one."""

    job: Job
    args: Mapping[str, Any]


class StepOutcome(msgspec.Struct, frozen=True):
    text: str
    failed: bool = False
    images: int = 0


Outcomes = Sequence[StepOutcome]


class OfflineStep(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a request: calls of one turn, optional files to read next, and a report.

    A `patient` step reports failed calls itself and lets the next step run.
    """

    title: str
    report: Callable[[Outcomes], str]
    calls: tuple[StepCall, ...] = ()
    more: Callable[[Outcomes], tuple[StepCall, ...]] | None = None
    patient: bool = False
    aloud: bool = False

    @property
    def only_looks(self) -> bool:
        looking = ("read", "ls", "grep", "find")
        return bool(self.calls) and self.more is None and all(c.job in looking for c in self.calls)


def say(title: str, text: str, *, aloud: bool = False) -> OfflineStep:
    return OfflineStep(title=title, report=lambda outcomes: text, aloud=aloud)


def together(first: OfflineStep, second: OfflineStep) -> OfflineStep:
    """Combine two read-only steps, so that their calls are made in the same turn."""
    cut = len(first.calls)
    return OfflineStep(
        title=f"{first.title} and {second.title}",
        calls=first.calls + second.calls,
        report=lambda seen: f"{first.report(seen[:cut])}\n\n{second.report(seen[cut:])}",
    )


# ---------------------------------------------------------------- which tool does it


def resolve(call: StepCall, tools: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and the arguments of a call, or None if no active tool can do it."""
    if call.job in tools:
        return call.job, dict(call.args)
    if "bash" in tools and call.job in _IN_SHELL:
        return "bash", {"command": _IN_SHELL[call.job](call.args)}
    return None


def quote(text: str) -> str:
    """Quote a word for the shell, so that no command parses it as an option."""
    from shlex import quote as shell_quote

    return shell_quote(f"./{text}" if text.startswith("-") else text)


def _shell_read(args: Mapping[str, Any]) -> str:
    path = quote(args["path"])
    if "limit" not in args:
        return f"cat {path}"
    first = args.get("offset", 1)
    return f"sed -n '{first},{first + args['limit'] - 1}p' {path}"


def _shell_ls(args: Mapping[str, Any]) -> str:
    return f"ls -1Ap {quote(args['path'])}"


def _shell_grep(args: Mapping[str, Any]) -> str:
    from shlex import quote as shell_quote

    text, path = shell_quote(args["pattern"]), quote(args["path"])
    return f"grep -rnIF --exclude-dir=.git -e {text} {path} | head -n {_SEARCH_LIMIT}"


def _shell_find(args: Mapping[str, Any]) -> str:
    from shlex import quote as shell_quote

    pattern = args["pattern"]
    test = f"-path {shell_quote('*/' + pattern)}" if "/" in pattern else f"-name {quote(pattern)}"
    where = quote(args["path"])
    return f"find {where} -name .git -prune -o {test} -print | sort | head -n {_FIND_LIMIT}"


_IN_SHELL: dict[Job, Callable[[Mapping[str, Any]], str]] = {
    "read": _shell_read,
    "ls": _shell_ls,
    "grep": _shell_grep,
    "find": _shell_find,
}


# ---------------------------------------------------------------- steps


def read_files(
    paths: Sequence[str], first: int | None = None, last: int | None = None
) -> OfflineStep:
    span = "" if first is None else f" from line {first}" + (f" to {last}" if last else "")
    lines: dict[str, int] = {}
    if first is not None:
        lines["offset"] = first
        if last is not None:
            lines["limit"] = max(1, last - first + 1)
    return OfflineStep(
        title=f"read {_and(paths)}{span}",
        calls=tuple(StepCall("read", {"path": path, **lines}) for path in paths),
        report=lambda seen: "\n\n".join(
            _report_read(path, span, outcome) for path, outcome in zip(paths, seen, strict=False)
        ),
    )


def list_folder(path: str) -> OfflineStep:
    return OfflineStep(
        title=f"list {_place(path)}",
        calls=(StepCall("ls", {"path": path}),),
        report=lambda seen: _report_list(path, seen[0]),
    )


def search(text: str, path: str) -> OfflineStep:
    args = {"pattern": text, "path": path, "literal": True, "limit": _SEARCH_LIMIT}
    return OfflineStep(
        title=f'search for "{text}" in {_place(path)}',
        calls=(StepCall("grep", args),),
        report=lambda seen: _report_hits("line", f'with "{text}"', path, seen[0]),
    )


def find_files(pattern: str, path: str) -> OfflineStep:
    args = {"pattern": pattern, "path": path, "limit": _FIND_LIMIT}
    return OfflineStep(
        title=f"find {pattern} in {_place(path)}",
        calls=(StepCall("find", args),),
        report=lambda seen: _report_hits("file", f"named {pattern}", path, seen[0]),
    )


def write_file(path: str, content: str) -> OfflineStep:
    size = _count(len(content), "character")
    return OfflineStep(
        title=f"write {path}",
        calls=(StepCall("write", {"path": path, "content": content}),),
        report=lambda seen: _done(f"I wrote {size} to {path}.", f"write {path}", seen[0]),
    )


def replace_text(old: str, new: str, path: str) -> OfflineStep:
    edits = [{"oldText": old, "newText": new}]
    done = f'I replaced "{old}" with "{new}" in {path}.'
    return OfflineStep(
        title=f"edit {path}",
        calls=(StepCall("edit", {"path": path, "edits": edits}),),
        report=lambda seen: _done(done, f"edit {path}", seen[0]),
    )


def run_command(command: str) -> OfflineStep:
    return OfflineStep(
        title=f"run `{command}`",
        calls=(StepCall("bash", {"command": command}),),
        report=lambda seen: _report_run(command, seen[0]),
    )


def describe_folder(cwd: str) -> OfflineStep:
    return OfflineStep(
        title="look at this folder",
        calls=(StepCall("ls", {"path": "."}),),
        report=lambda seen: _where(cwd) + _report_list(".", seen[0]),
    )


def describe_project(cwd: str) -> OfflineStep:
    everything = {"pattern": "*", "path": ".", "limit": _FIND_LIMIT}
    return OfflineStep(
        title="look at this project",
        calls=(StepCall("ls", {"path": "."}), StepCall("find", everything)),
        more=lambda seen: tuple(
            StepCall("read", {"path": name, "offset": 1, "limit": _SHOWN_LINES})
            for name in _papers(seen)
        ),
        report=lambda seen: _where(cwd) + _report_project(seen),
        patient=True,
    )


# ---------------------------------------------------------------- words


def shown(text: str) -> str:
    """Return output in a code fence, truncated to a readable size."""
    lines = text.rstrip("\n")[:_SHOWN_CHARACTERS].split("\n")
    kept = "\n".join(lines[:_SHOWN_LINES])
    cut = len(kept) < len(text.rstrip("\n"))
    fence = "```"
    while fence in kept:
        fence += "`"
    return f"{fence}\n{kept}\n{fence}" + ("\n(shortened)" if cut else "")


def trouble(what: str, outcome: StepOutcome) -> str:
    return f"I could not {what}. The tool said:\n{shown(outcome.text or '(nothing)')}"


def _report_read(path: str, span: str, outcome: StepOutcome) -> str:
    if outcome.failed:
        return trouble(f"read {path}", outcome)
    if outcome.images:
        return f"{path} is an image. I have read it, but I cannot see pictures."
    if not outcome.text.strip():
        return f"{path} is empty."
    return f"Here is {path}{span}:\n{shown(outcome.text)}"


def _report_list(path: str, outcome: StepOutcome) -> str:
    if outcome.failed:
        return trouble(f"list {_place(path)}", outcome)
    names = entries(outcome.text)
    if not names:
        return f"There is nothing in {_place(path)}."
    return f"In {_place(path)} I see {_census(names)}:\n{shown(chr(10).join(names))}"


def _report_hits(noun: str, which: str, path: str, outcome: StepOutcome) -> str:
    if outcome.failed:
        return trouble(f"search {_place(path)}", outcome)
    hits = entries(outcome.text)
    if not hits:
        return f"I found no {noun} {which} in {_place(path)}."
    count = _count(len(hits), noun)
    return f"I found {count} {which} in {_place(path)}:\n{shown(outcome.text)}"


def _report_run(command: str, outcome: StepOutcome) -> str:
    if outcome.failed:
        return f"The command `{command}` failed:\n{shown(outcome.text or '(no output)')}"
    if outcome.text.strip() in ("", "(no output)"):
        return f"The command `{command}` ran and printed nothing."
    return f"The command `{command}` ran and printed:\n{shown(outcome.text)}"


def _done(sentence: str, what: str, outcome: StepOutcome) -> str:
    return trouble(what, outcome) if outcome.failed else sentence


def entries(output: str) -> list[str]:
    """Return the lines of a listing without notices and placeholders for empty output."""
    nothing = ("(empty directory)", "(no output)", "No matches found")
    lines = [line for line in output.splitlines() if line.strip() and line not in nothing]
    return [line for line in lines if not _NOTICE.fullmatch(line)]


def _where(cwd: str) -> str:
    return f"We are in {cwd}.\n" if cwd else ""


def _place(path: str) -> str:
    return "this folder" if path == "." else path


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _census(names: Sequence[str]) -> str:
    folders = sum(name.endswith("/") for name in names)
    counts = ((folders, "folder"), (len(names) - folders, "file"))
    return _and([_count(number, noun) for number, noun in counts if number])


# ---------------------------------------------------------------- a project

_PAPERS = ("pyproject.toml", "package.json", "cargo.toml", "go.mod")


def _papers(seen: Outcomes) -> tuple[str, ...]:
    """Return the files of a listing that describe a project: a readme and a manifest."""
    names = [] if seen[0].failed else entries(seen[0].text)
    readme = [name for name in names if name.lower().startswith("readme")][:1]
    manifest = [name for name in names if name.lower() in _PAPERS][:1]
    return tuple(readme + manifest)


def _report_project(seen: Outcomes) -> str:
    listing, found, *papers = seen
    parts = [_report_list(".", listing)]
    if kinds := [] if found.failed else _kinds(entries(found.text)):
        parts.append(f"Files by ending: {', '.join(kinds)}.")
    for name, outcome in zip(_papers(seen), papers, strict=False):
        if not outcome.failed and outcome.text.strip():
            parts.append(f"{name} begins:\n{shown(_beginning(outcome.text))}")
    parts.append("I can count and quote, but I do not understand code: for that, connect a model.")
    return "\n\n".join(parts)


def _kinds(paths: Sequence[str]) -> list[str]:
    endings: Counter[str] = Counter()
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        if "." in name.lstrip(".") and not path.startswith((".git/", "./.git/")):
            endings["." + name.rsplit(".", 1)[1]] += 1
    ordered = sorted(endings.items(), key=lambda item: (-item[1], item[0]))
    return [f"{count} {ending}" for ending, count in ordered[:6]]


def _beginning(text: str) -> str:
    """Return the first eight lines that are not blank."""
    return "\n".join([line for line in text.split("\n") if line.strip()][:8])
