"""Search a folder without ripgrep: a script for a child process, standard library only.

Python's regular expressions can take exponential time and block the interpreter; a process can be
killed. Argument: one JSON object (see `main`). Output: the format of `rg --null`.
"""

import errno
import json
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

IGNORE_FILES = (".gitignore", ".ignore")
ALWAYS_SKIPPED = ".git"
LONGEST_LINE = 4096
# Exit code of a search that skipped paths longer than the system allows.
TOO_DEEP = 3

too_deep: list[str] = []
# Limit of bytes: larger ignore files are skipped, and the rest of a longer line is not searched.
LONGEST_IGNORE_FILE = 256 * 1024
LONGEST_SEARCHED = 1024 * 1024
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class DirectoryEntry(NamedTuple):
    """A file or folder below the root; the path is relative, with slashes."""

    path: str
    full_path: str
    is_folder: bool
    is_file: bool


class GitignoreRule(NamedTuple):
    pattern: re.Pattern[str]
    ignores: bool
    folders_only: bool


class IgnoreFile:
    """Rules of one ignore file, for paths below its folder. The last matching rule decides."""

    def __init__(self, folder: str, text: str) -> None:
        self._base = len(folder.rstrip("/")) + 1
        self._rules = [rule for line in text.splitlines() if (rule := parse_rule(line))]
        joined = "|".join(f"(?:{rule.pattern.pattern})" for rule in self._rules)
        self._any = re.compile(joined) if self._rules else None

    def verdict(self, full_path: str, is_folder: bool) -> bool | None:
        """True: ignored. False: kept by a negated rule. None: no rule matches."""
        path = full_path[self._base :]
        if not self._any or not self._any.fullmatch(path):
            return None
        for rule in reversed(self._rules):
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                return rule.ignores
        return None


def parse_rule(line: str) -> GitignoreRule | None:
    text = line if line.endswith("\\ ") else line.rstrip(" \t\r")
    if not text or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    text = text.removeprefix("!")
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    try:
        return GitignoreRule(re.compile(anchored(text)), ignores, folders_only)
    except re.error:
        return None


def anchored(pattern: str, *, braces: bool = False) -> str:
    """Return an expression for a path relative to the folder of the pattern.

    A pattern without a slash matches at any depth.
    """
    if "/" in pattern:
        return glob_expression(pattern.removeprefix("/"), braces=braces)
    return "(?:[^/]*/)*" + glob_expression(pattern, braces=braces)


_GLOB_TOKEN = re.compile(
    r"(?P<any_folders>(?:(?<=/)|^)\*\*/)|(?P<all_below>(?<=/)\*\*$)|(?P<star>\*+)|(?P<one>\?)"
    r"|(?P<set>\[[!^]?\]?(?:\\.|[^\]\\])*\])|(?P<brace>[{},])|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)


def glob_expression(pattern: str, *, braces: bool) -> str:
    if braces and "{" in pattern:
        return _with_braces(pattern)
    folders: list[list[list[re.Match[str]]]] = [[[]]]
    for token in _GLOB_TOKEN.finditer(pattern):
        if token.lastgroup == "any_folders":
            folders.append([[]])
        else:
            folders[-1][-1].append(token)
            if token.group() in ("/", "\\/"):
                folders[-1].append([])
    first, *rest = ("".join(map(_name_expression, names)) for names in folders)
    # The first match is as good as any later one, so atomic groups prevent backtracking.
    middle = "".join(f"(?>(?:[^/]*/)*?{names})" for names in rest[:-1])
    return first + middle + "".join(f"(?:[^/]*/)*{names}" for names in rest[-1:])


def _name_expression(tokens: "list[re.Match[str]]") -> str:
    """Return an expression for one name of a path in which only the last star can backtrack."""
    parts = [""]
    for token in tokens:
        if token.lastgroup == "star":
            parts.append("")
        else:
            parts[-1] += _token_expression(token)
    first, *rest = parts
    middle = "".join(f"(?>[^/]*?{part})" for part in rest[:-1])
    return first + middle + "".join(f"[^/]*{part}" for part in rest[-1:])


def _with_braces(pattern: str) -> str:
    depth = 0
    out: list[str] = []
    for token in _GLOB_TOKEN.finditer(pattern):
        text = token.group()
        if token.lastgroup == "brace" and (depth or text == "{"):
            depth += {"{": 1, "}": -1, ",": 0}[text]
            out.append({"{": "(?:", "}": ")", ",": "|"}[text])
        else:
            out.append(_token_expression(token))
    return "".join(out) + ")" * depth


_WILD = {"any_folders": "(?:.*/)?", "all_below": ".*", "star": "[^/]*", "one": "[^/]"}


def _token_expression(token: re.Match[str]) -> str:
    kind = token.lastgroup or ""
    if kind == "set":
        return _set_expression(token.group()[1:-1])
    return _WILD.get(kind) or re.escape(token["escaped"] or token.group())


def _set_expression(body: str) -> str:
    negated = body.startswith(("!", "^"))
    inner = body[1:] if negated else body
    inner = inner.replace("[", "\\[").replace("^", "\\^").replace("&", "\\&").replace("|", "\\|")
    inner = re.sub(r"^\]", r"\\]", inner)
    return f"(?!/)[{'^' if negated else ''}{inner}]"


class Override:
    """A glob of the caller, which takes precedence over ignore files as in ripgrep."""

    def __init__(self, glob: str | None) -> None:
        text = glob or ""
        self._wanted = not text.startswith("!")
        self._pattern = re.compile(anchored(text.removeprefix("!"), braces=True)) if text else None

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: excluded. False: kept. None: the ignore files decide."""
        if not self._pattern:
            return None
        if self._pattern.fullmatch(path):
            return not self._wanted
        return None if is_folder or not self._wanted else True


def walk(root: str, glob: str | None = None) -> Iterator[DirectoryEntry]:
    """Yield everything below a folder that is not ignored, sorted by name."""
    yield from _walk_folder(root, "", _outer_rules(root), Override(glob))


def _outer_rules(root: str) -> list[IgnoreFile]:
    """Return the rules of the parent folders, up to the root of the repository."""
    files: list[IgnoreFile] = []
    folder = root
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
        files[:0] = _rules_in(folder)
    return files


def _rules_in(folder: str) -> list[IgnoreFile]:
    ignore_files: list[IgnoreFile] = []
    for name in IGNORE_FILES:
        # Links are not followed, as in git: they may lead to endless files.
        data = _read_regular(os.path.join(folder, name), LONGEST_IGNORE_FILE)
        if data:
            ignore_files.append(IgnoreFile(folder, data.decode("utf-8", "replace")))
    return ignore_files


def _read_regular(path: str, limit: int) -> bytes | None:
    """Return the content of a regular file up to the size limit; None for anything else."""
    try:
        with open(path, "rb", opener=_open_regular) as file:
            data = file.read(limit + 1)
    except OSError:
        return None
    return data if len(data) <= limit else None


def _open_regular(path: str, flags: int) -> int:
    del flags
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError("not a regular file")
    # It may have been replaced since. These flags do not block on a pipe and refuse a link.
    file = os.open(path, _OPEN | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError("not a regular file")
    return file


def _walk_folder(
    folder: str, prefix: str, outer: list[IgnoreFile], override: Override
) -> Iterator[DirectoryEntry]:
    rules = outer + _rules_in(folder)
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        _note_depth(error)
        return
    for item in entries:
        is_folder = item.is_dir(follow_symlinks=False)
        path = prefix + item.name
        verdict = override.verdict(path, is_folder)
        if verdict is None:
            verdict = _is_ignored(item.path, is_folder, rules)
        if verdict or item.name == ALWAYS_SKIPPED:
            continue
        yield DirectoryEntry(path, item.path, is_folder, item.is_file(follow_symlinks=False))
        if is_folder:
            yield from _walk_folder(item.path, f"{path}/", rules, override)


def _is_ignored(full_path: str, is_folder: bool, rules: list[IgnoreFile]) -> bool:
    for file in reversed(rules):
        verdict = file.verdict(full_path, is_folder)
        if verdict is not None:
            return verdict
    return False


def find_pattern(pattern: str) -> tuple[str, bool]:
    """Return the glob of `find`, and whether it is for whole paths."""
    if "/" in pattern and not pattern.startswith(("/", "**/")):
        pattern = f"**/{pattern}"
    return pattern, "/" in pattern


def find_paths(root: str, pattern: str) -> Iterator[str]:
    """Yield paths that match a glob: by name, or by the whole path if the glob has a slash."""
    pattern, whole = find_pattern(pattern)
    fits = re.compile(glob_expression(pattern, braces=True)).fullmatch
    for entry in walk(root):
        if fits(entry.full_path if whole else entry.path.rpartition("/")[2]):
            yield f"{entry.path}/" if entry.is_folder else entry.path


def searched_files(root: str, only: str | None, glob: str | None) -> Iterator[tuple[str, str]]:
    """Yield the relative and the full path of each file to search."""
    if only is not None:
        yield only, os.path.join(root, only)
        return
    for entry in walk(root, glob):
        if entry.is_file:
            yield entry.path, entry.full_path


def matching_lines(full_path: str, search: Callable[[str], Any], context: int) -> Iterator[str]:
    """Yield `number:text` for matches and `number-text` for context lines."""
    before: deque[str] = deque(maxlen=context)
    after = 0
    for number, raw in enumerate(_text_lines(full_path), 1):
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if search(line):
            yield from before
            before.clear()
            after = context
            yield f"{number}:{line[:LONGEST_LINE]}"
        elif after:
            after -= 1
            yield f"{number}-{line[:LONGEST_LINE]}"
        else:
            before.append(f"{number}-{line[:LONGEST_LINE]}")


def _text_lines(full_path: str) -> Iterator[bytes]:
    try:
        with open(full_path, "rb") as file:
            if b"\0" in file.peek(8192)[:8192]:
                return
            while line := file.readline(LONGEST_SEARCHED):
                yield line
                while len(line) == LONGEST_SEARCHED and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_SEARCHED)
    except OSError as error:
        _note_depth(error)


def _note_depth(error: OSError) -> None:
    """Remember that a path was skipped because it is too long."""
    if error.errno == errno.ENAMETOOLONG:
        too_deep.append(str(error.filename))


def main(argument: str) -> int:
    """Run `{"root", "find": glob}` or `{"root", "grep": pattern, "only", "glob", ...}`."""
    query: dict[str, Any] = json.loads(argument)
    # Folders may be nested as deep as a path is long.
    sys.setrecursionlimit(10_000)
    write = sys.stdout.buffer.write
    try:
        if "find" in query:
            for path in find_paths(query["root"], query["find"]):
                write(os.fsencode(path) + b"\0")
            return TOO_DEEP if too_deep else 0
        flags = re.IGNORECASE if query["ignoreCase"] else re.NOFLAG
        pattern = re.escape(query["grep"]) if query["literal"] else query["grep"]
        search = re.compile(pattern, flags).search
    except re.error as error:
        write(f"regex parse error: {error}\n".encode())
        return 2
    for path, full_path in searched_files(query["root"], query["only"], query["glob"]):
        for line in matching_lines(full_path, search, query["context"]):
            write(os.fsencode(path) + b"\0" + line.encode("utf-8", "replace") + b"\n")
    return TOO_DEEP if too_deep else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
