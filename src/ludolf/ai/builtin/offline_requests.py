"""Table of the requests that the offline model understands, with their patterns and steps."""

import re
from collections.abc import Callable, Iterator
from functools import cache

import msgspec

from ludolf.ai.builtin.offline_steps import (
    OfflineStep,
    describe_folder,
    describe_project,
    find_files,
    list_folder,
    read_files,
    replace_text,
    run_command,
    say,
    search,
    write_file,
)
from ludolf.ai.builtin.offline_texts import CONNECT, GREETING, HELP, TESTS, THANKS, thought_about
from ludolf.ai.builtin.offline_vocabulary import MARK, Words

Build = Callable[["RequestMatch"], OfflineStep | None]


class RequestMatch(msgspec.Struct, frozen=True):
    """A request that matches a pattern: its named groups, with quoted parts still masked."""

    words: Words
    parts: dict[str, str | None]
    cwd: str

    def get(self, name: str) -> str:
        return self.words.inner(self.parts.get(name) or "")

    def number(self, name: str) -> int | None:
        text = self.parts.get(name)
        return int(text) if text else None

    def paths(self, name: str = "path") -> list[str]:
        listed = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", self.parts.get(name) or "")
        return [path for part in listed if (path := self._path(part))]

    def folder(self, name: str = "path") -> str:
        """Return the folder of the request, or the current one if none is named."""
        part = self.parts.get(name)
        return "." if not part or _HERE.fullmatch(part) else self._path(part)

    def is_clear_path(self, name: str = "path") -> bool:
        part = self.parts.get(name) or ""
        return self.words.is_quoted(part) or _LOOKS_LIKE_PATH.search(part) is not None

    def _path(self, part: str) -> str:
        path = self.words.inner(part)
        if self.words.is_quoted(part) or path in (".", ".."):
            return path
        path = path.rstrip(".,:;!?")
        return "" if _NO_PATH.fullmatch(path) or path.startswith("-") else path


class Row(msgspec.Struct, frozen=True):
    """One kind of request. `build` returns None if the words match but the meaning does not."""

    name: str
    example: str
    patterns: tuple[str, ...]
    build: Build

    def fit(self, words: Words, text: str, cwd: str) -> Iterator[OfflineStep]:
        for pattern in self.patterns:
            match = _compiled(pattern).fullmatch(text)
            step = match and self.build(RequestMatch(words, match.groupdict(), cwd))
            if step:
                yield step


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # Compiled on first use: most sessions import this module but never use the model.
    return re.compile(pattern, re.I | re.S)


_HERE = re.compile(
    r"here|everywhere|everything|all files|(?:this|the|my)(?: current| whole| working)?"
    r" (?:folder|directory|project|repo|repository|code|codebase)",
    re.I,
)
_LOOKS_LIKE_PATH = re.compile(r"[./~]\w|\w/|^[A-Z]{4,}$|^(?:Makefile|Dockerfile)$")
_FILE_NAME = re.compile(r"\w\.\w+$")
_NO_PATH = re.compile(
    r"an?|all|anything|code|everything|files?|folder|how|it|me|more|my|nothing|our|out|some"
    r"|something|that|the|them|these|this|those|what|why|your?",
    re.I,
)
_PATH = rf"(?:{MARK}|[^\s,{MARK[1:-1]}]+)"
_PATHS = rf"{_PATH}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+){_PATH})*"
_WHERE = rf"(?P<path>{_HERE.pattern}|{_PATH})"
_IN = r"(?:in|of|under|inside|within|from)(?: the (?:folder|directory|file))?"
_SHOW = r"(?:read|show|open|cat|print|display|view|look at|give)(?: me| us)?"
_THE_FILE = r"(?: the)?(?: (?:files?|contents?|text)(?: of)?)?(?: the)?(?: file)?"


def _loose(*patterns: str) -> tuple[str, ...]:
    return tuple(rf"(?:{pattern})\s*[.!?]*" for pattern in patterns)


def _exact(*patterns: str) -> tuple[str, ...]:
    """Patterns of requests that end with the user's own text, including a final full stop."""
    return patterns


# ---------------------------------------------------------------- builders


def _read(found: RequestMatch) -> OfflineStep | None:
    paths = found.paths()
    clear = found.is_clear_path() or re.match(r"read|cat", found.parts.get("verb") or "", re.I)
    if not paths or not clear:
        return None
    if len(paths) == 1 and paths[0].endswith("/"):
        return list_folder(paths[0])
    first = found.number("first") or (1 if found.parts.get("last") else None)
    last = found.number("last") or (found.number("first") if found.parts.get("one") else None)
    return read_files(paths, first, last)


def _list(found: RequestMatch) -> OfflineStep | None:
    folder = found.folder()
    if found.parts.get("asked") and _FILE_NAME.search(folder):
        return read_files([folder])
    return list_folder(folder) if folder else None


def _search(found: RequestMatch) -> OfflineStep | None:
    text, folder = found.get("text"), found.folder()
    return search(text, folder) if text and folder else None


_LANGUAGES = {
    "python": "*.py",
    "markdown": "*.md",
    "json": "*.json",
    "yaml": "*.y*ml",
    "toml": "*.toml",
    "javascript": "*.js",
    "typescript": "*.ts",
    "rust": "*.rs",
    "go": "*.go",
    "text": "*.txt",
}


def _find(found: RequestMatch) -> OfflineStep | None:
    pattern, folder = found.get("glob"), found.folder()
    language = _LANGUAGES.get((found.parts.get("language") or "").lower())
    if found.parts.get("ending"):
        pattern = "*" + found.get("ending")
    pattern = language or pattern
    return find_files(pattern, folder) if pattern and folder else None


def _write(found: RequestMatch) -> OfflineStep | None:
    paths = found.paths()
    if len(paths) != 1 or not (found.is_clear_path() or found.parts.get("file")):
        return None
    return write_file(paths[0], found.get("content"))


def _edit(found: RequestMatch) -> OfflineStep | None:
    paths, old = found.paths(), found.get("old")
    return replace_text(old, found.get("new"), paths[0]) if len(paths) == 1 and old else None


def _run(found: RequestMatch) -> OfflineStep | None:
    command = found.get("command").strip()
    if not found.words.is_quoted(found.parts.get("command") or ""):
        command = re.sub(r"(?<=\w)[.!]$", "", command)
        if _NO_PATH.fullmatch(command.split(maxsplit=1)[0]):
            return None
    folder = found.folder()
    if folder not in ("", "."):
        from shlex import quote

        command = f"cd {quote(folder)} && {command}"
    return run_command(command) if command else None


def _think(found: RequestMatch) -> OfflineStep:
    topic = found.get("topic").rstrip(".!? ")
    return say(f"think about {topic}", thought_about(topic), aloud=True)


# ---------------------------------------------------------------- the table

TABLE: tuple[Row, ...] = (
    Row(
        "greeting",
        "hello",
        _loose(
            r"(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day))"
            r"(?:,? (?:there|ludolf|you|all))?"
        ),
        lambda found: say("greet", GREETING),
    ),
    Row(
        "thanks",
        "thank you",
        _loose(r"(?:thanks|thank you|cheers)(?: a lot| so much| very much)?(?:,? ludolf)?"),
        lambda found: say("take the thanks", THANKS),
    ),
    Row(
        "help",
        "what can you do?",
        _loose(
            r"/?help(?: me)?|what (?:can|do) you do|who are you|what are you"
            r"|how do (?:i use you|you work)|show(?: me)?(?: the)? help"
        ),
        lambda found: say("list what I can do", HELP),
    ),
    Row(
        "connecting",
        "how do I connect a real model?",
        _loose(
            r"how (?:do|can|could) (?:i|we) (?:connect|use|add|choose|configure|set up|switch to)"
            r"(?: to)?(?: an?| the| my| another)?(?: real| other| better)? ?"
            r"(?:model|key|api key|provider|llm)"
        ),
        lambda found: say("say how to connect a model", CONNECT),
    ),
    Row(
        "project",
        "summarise this project",
        _loose(
            r"(?:summari[sz]e|describe|explain|explore|analy[sz]e|give me an overview of"
            r"|tell me about|what is|what does|look at) (?:this|the|my)(?: current| whole)?"
            r" (?:project|repo|repository|codebase|code)(?: do| about)?"
        ),
        lambda found: describe_project(found.cwd),
    ),
    Row(
        "folder",
        "what is in this folder?",
        _loose(
            r"(?:what(?:'s| is)|what files are) in (?:this|the|my)(?: current| working)?"
            r" (?:folder|directory)|(?:what|which) files (?:are|exist) (?:here|there)"
            r"|where (?:am i|are we)|(?:describe|summari[sz]e) (?:this|the) (?:folder|directory)"
        ),
        lambda found: describe_folder(found.cwd),
    ),
    Row(
        "lines",
        "show me src/x.py lines 10-20",
        _loose(
            rf"(?P<verb>{_SHOW}){_THE_FILE} (?P<path>{_PATH}),?(?: from)?(?: (?P<one>line)| lines?)"
            r" (?P<first>\d{1,9})(?:\s*(?:-|–|to|through)\s*(?P<last>\d{1,9}))?",
            rf"(?P<verb>{_SHOW})(?: the)?(?: (?P<one>line)| lines?) (?P<first>\d{{1,9}})"
            rf"(?:\s*(?:-|–|to|through)\s*(?P<last>\d{{1,9}}))? {_IN} (?P<path>{_PATH})",
            rf"(?P<verb>{_SHOW})(?: the)? first (?P<last>\d{{1,9}}) lines {_IN} (?P<path>{_PATH})",
        ),
        _read,
    ),
    Row(
        "find",
        "find files named *.py in src",
        _loose(
            r"(?:find|list|show|locate|look for|search for)(?: me)?(?: all)?(?: the)? files?"
            r" (?:named|called|matching|like) (?P<glob>" + _PATH + rf")(?: {_IN} {_WHERE})?",
            r"(?:find|list|show|locate|look for|search for)(?: me)?(?: all)?(?: the)? files?"
            r" (?:ending (?:in|with)|with the (?:ending|extension)) (?P<ending>\.?[\w.]+?)"
            rf"(?: {_IN} {_WHERE})?",
            r"(?:find|list|show|locate)(?: me)?(?: all)?(?: the)? "
            r"(?:(?P<glob>[^\s,]*[*?][^\s,]*)(?: files)?"
            rf"|(?P<language>{'|'.join(_LANGUAGES)}) files)"
            rf"(?: {_IN} {_WHERE})?",
        ),
        _find,
    ),
    Row(
        "search",
        "search for TODO in src",
        _loose(
            rf"(?:search|grep) (?:in )?{_WHERE} for (?P<text>.+?)",
            rf"where is (?P<text>{_PATH}) (?:used|defined|mentioned|called)(?: {_IN} {_WHERE})?",
            r"(?:search|grep|look|find)(?: the (?:code|project|files))?(?: for)?"
            r"(?: all)?(?: the (?:text|word|string|phrase))?"
            rf" (?P<text>.+?) (?:in|under|inside|within)(?: the (?:folder|file))? {_WHERE}",
            r"(?:search for|grep(?: for)?|look for)(?: the (?:text|word|string|phrase))?"
            r" (?P<text>.+?)",
        ),
        _search,
    ),
    Row(
        "list",
        "list src",
        _loose(
            r"(?:list|ls|dir)(?: me)?(?: all)?(?: the)?(?: (?:files|folders|entries|contents?))*"
            rf"(?:(?: {_IN})? {_WHERE}(?: folder| directory)?)?",
            rf"(?P<asked>what(?:'s| is)|what files are) {_IN} {_WHERE}(?: folder| directory)?",
            r"show(?: me)?(?: all)?(?: the)? (?:files|folders|entries|contents?)"
            rf"(?: {_IN} {_WHERE})?",
        ),
        _list,
    ),
    Row(
        "read",
        "read README.md",
        _loose(rf"(?P<verb>{_SHOW}){_THE_FILE} (?P<path>{_PATHS})"),
        _read,
    ),
    Row(
        "write",
        "write hello.txt with Hello",
        _exact(
            r"(?:write|create|make|save)(?: an?| the)?(?: new)?(?P<file>(?: text)? file)?"
            rf"(?: named| called)? (?P<path>{_PATH})(?: file)?"
            rf"(?::|,?\s+(?:with|containing|saying|that says|which says)(?: the| this)?"
            r"(?: (?:text|contents?|line|words?|following))*:?)\s+(?P<content>.+)",
            r"(?:write|create|make|save)(?: an?| the)?(?: new)?(?P<file>(?: text)? file)?"
            rf"(?: named| called)? (?P<path>{_PATH}):?\s+(?P<content>{MARK})",
            r"(?:write|save|put)(?: the (?:text|line|words?))? (?P<content>.+?)"
            rf" (?:to|into|in|as)(?: an?| the)?(?: new)?(?P<file> file)?(?: named| called)?"
            rf" (?P<path>{_PATH})",
            r"(?:create|make|touch)(?: an?| the)?(?: new)?(?: empty)?(?P<file> file)"
            rf"(?: named| called)? (?P<path>{_PATH})",
        ),
        _write,
    ),
    Row(
        "edit",
        'replace "old" with "new" in notes.txt',
        _exact(
            r"(?:replace|change|substitute)(?: the (?:text|word|line|string))? (?P<old>.+?)"
            rf" (?:with|by|to|into) (?P<new>.+) in(?: the file)? (?P<path>{_PATH})",
            rf"in(?: the file)? (?P<path>{_PATH}),? (?:replace|change) (?P<old>.+?)"
            r" (?:with|by|to|into) (?P<new>.+)",
            rf"(?:edit|modify|update|change)(?: the file)? (?P<path>{_PATH})[:,]?(?: and| to)?"
            r" (?:replace|change) (?P<old>.+?) (?:with|by|to|into) (?P<new>.+)",
        ),
        _edit,
    ),
    Row(
        "tests",
        "run the tests",
        _loose(r"run(?: the| all| all the| my)?(?: unit)? tests?(?: suite)?"),
        lambda found: say("ask for the test command", TESTS),
    ),
    Row(
        "command",
        "run `ls -la`",
        _exact(
            rf"(?:run|execute)(?: the (?:command|script))?:? (?P<command>{MARK})"
            rf" in(?: the (?:folder|directory))? (?P<path>{_PATH})",
            r"(?:run|execute|exec)(?: (?:the|this) (?:shell )?(?:command|script))?:?\s+"
            r"(?P<command>.+)",
            r"[$!]\s*(?P<command>.+)",
            r"(?P<command>git (?:status|log|diff|branch|show)\b.*|ls -.*|pwd|date|whoami)",
        ),
        _run,
    ),
    Row(
        "thinking",
        "think about how to name this function",
        _exact(
            r"think(?: hard| carefully| aloud| out loud)?(?: about| of| through| over)?"
            r" (?P<topic>.+)"
        ),
        _think,
    ),
)
