"""Requests that the offline model understands: their patterns, tool calls and reports."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal

import msgspec

from ludolf.base.patterns import lazy_pattern

Job = Literal["read", "ls", "grep", "find", "write", "edit", "bash"]
_SHOWN_LINES = 40
_SHOWN_CHARACTERS = 4_000
_SEARCH_LIMIT = 100
_FIND_LIMIT = 300
_NOTICE = lazy_pattern(
    r"\[.*\]|No files found.*|\(empty directory\)|\(no output\)|No matches found"
)

# ---------------------------------------------------------------- texts

GREETING = (
    "Hello! I am the offline demo model of Ludolf. I have no intelligence: I follow a short table "
    'of requests and drive the real tools. Say "help" for the list, or try "what is in this '
    'folder?".'
)

THANKS = "You are welcome."

HELP = """I am the offline demo model of Ludolf. I work without network and without a key, by \
fixed rules. I understand these requests:

- read a file: "read README.md", "show me src/x.py lines 10-20", "read a.txt and b.txt"
- list a folder: "list src", "what is in this folder?"
- search text: "search for TODO in src"
- find files: "find files named *.py in src"
- write a file: "write hello.txt with Hello", or with a fenced block
- edit a file: replace "old" with "new" in notes.txt
- run a command: "run `ls -la`"
- look around: "summarise this project"
- think aloud: "think about how to name this function"

Join requests with "then" to have them done one after another. For anything else, connect a model: \
ask "how do I connect a real model?"."""

CONNECT = """To connect a real model, do one of these:

- A hosted model: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY in the environment, or \
store a key or a login with `ludolf auth login`; choose a model with `--model provider/id`.
- A model of this machine: start Ollama, llama.cpp, LM Studio or vLLM. Ludolf finds them \
automatically; choose one of their models with `--model ollama/name`.
- Another server: add it to models.json with its baseUrl and api.
- From a host: send `login` or `set_model`."""

UNKNOWN = f"""I am the offline demo model of Ludolf: I follow a short table of requests and did \
not find yours in it. Say "help" for what I can do.

{CONNECT}"""

TESTS = "Name the command that runs your tests, for example: run `pytest -q`."

NO_REQUEST = 'I see no request in this conversation. Say "help" for what I can do.'

TOO_LONG = "I stop here: this request has taken more turns than my plan allows."

_THOUGHT = (
    "I was asked to think about {}. What you saw is a thinking block made by rule, so that a host "
    "can show one. I am the offline demo and have no thoughts of my own to add; a real model would."
)

# ---------------------------------------------------------------- words of a request

FIRST_MARK = 0xE000
MARK = "[\ue000-\uf8ff]"
_QUOTED = lazy_pattern(
    rf"(?P<odd>{MARK})|"
    r"```[^\n`]*\n(?P<fence>.*?)```"
    r"|`(?P<tick>[^`\n]+)`"
    r'|"(?P<double>[^"]*)"'
    r"|“(?P<curly>[^“”]*)”"
    r"|(?<![^\s(:,])'(?P<single>[^'\n]*)'(?![^\s).,:;!?])",
    re.S,
)
_IMAGE_HINT = lazy_pattern(r"^\[Image[^\n]*\]$", re.M)
_LEAD = lazy_pattern(
    r"(?:\d+[.)]|[-*])\s+"
    r"|(?:please|kindly|now|first|next|finally|then|ok|okay|just|also|and|let's|let us"
    r"|i want you to|i would like you to|i'd like you to)[\s,:]+"
    r"|(?P<asking>(?:can|could|would|will) you\s+)",
    re.I,
)
_TAIL = lazy_pattern(r"(?:,?\s+(?:please|for me|thanks|thank you))+\s*(?P<end>[.!?]*)$", re.I)
_MOST_MARKS = 1_000
_LONGEST = 200_000


class Words:
    """A request in which each quoted part is one placeholder; `inner` restores them.

    A request that is too long or has too many quoted parts becomes empty and matches nothing.
    """

    def __init__(self, text: str) -> None:
        self._raw: list[str] = []
        self._inner: list[str] = []
        plain = _IMAGE_HINT.sub("", _without_files(text))
        hidden = _QUOTED.sub(self._hide, plain) if len(plain) <= _LONGEST else ""
        self.text = hidden.strip() if len(self._raw) <= _MOST_MARKS else ""

    def _hide(self, match: re.Match[str]) -> str:
        if len(self._raw) > _MOST_MARKS:
            return ""
        self._raw.append(match.group())
        self._inner.append(match.group(match.lastgroup or 0))
        return chr(FIRST_MARK + len(self._raw) - 1)

    def inner(self, part: str) -> str:
        """Return a part without its quotes if it is quoted completely, otherwise as written."""
        texts = self._inner if is_quoted(part) else self._raw
        return re.sub(MARK, lambda match: texts[ord(match.group()) - FIRST_MARK], part.strip())


def is_quoted(part: str) -> bool:
    return re.fullmatch(MARK, part.strip()) is not None


def _without_files(text: str) -> str:
    """Return the text without the files that a host inserted."""
    kept: list[str] = []
    while (start := text.find('<file name="')) >= 0 and (end := text.find("</file>", start)) >= 0:
        kept.append(text[:start])
        text = text[end + len("</file>") :]
    return "".join((*kept, text))


def polite_off(text: str) -> str:
    """Return the request without list marker, "could you please" and "thanks"."""
    text = text.strip()
    asking = False
    while (match := _LEAD.match(text)) and match.end() < len(text):
        asking = asking or match.group("asking") is not None
        text = text[match.end() :]
    text = _TAIL.sub("", text)
    return text.rstrip("?").rstrip() if asking else text


# ---------------------------------------------------------------- steps


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


def _single(
    title: str, job: Job, args: Mapping[str, Any], report: Callable[[StepOutcome], str]
) -> OfflineStep:
    return OfflineStep(
        title=title, calls=(StepCall(job, args),), report=lambda seen: report(seen[0])
    )


def resolve(call: StepCall, tools: frozenset[str]) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and the arguments of a call, or None if no active tool can do it."""
    if call.job in tools:
        return call.job, dict(call.args)
    command = _in_shell(call.job, call.args) if "bash" in tools else None
    return None if command is None else ("bash", {"command": command})


def _in_shell(job: Job, args: Mapping[str, Any]) -> str | None:
    """Return the shell command for a job of a tool that is not active."""
    from shlex import quote

    def name(text: str) -> str:
        # No command may parse it as an option.
        return quote(f"./{text}" if text.startswith("-") else text)

    path = name(args["path"])
    match job:
        case "read" if "limit" not in args:
            return f"cat {path}"
        case "read":
            first = args.get("offset", 1)
            return f"sed -n '{first},{first + args['limit'] - 1}p' {path}"
        case "ls":
            return f"ls -1Ap {path}"
        case "grep":
            text = quote(args["pattern"])
            return f"grep -rnIF --exclude-dir=.git -e {text} {path} | head -n {_SEARCH_LIMIT}"
        case "find":
            pattern = args["pattern"]
            test = f"-path {quote('*/' + pattern)}" if "/" in pattern else f"-name {name(pattern)}"
            return f"find {path} -name .git -prune -o {test} -print | sort | head -n {_FIND_LIMIT}"
    return None


# ---------------------------------------------------------------- reports


def shown(text: str) -> str:
    """Return output in a code fence, truncated to a readable size."""
    lines = text.rstrip("\n")[:_SHOWN_CHARACTERS].split("\n")
    kept = "\n".join(lines[:_SHOWN_LINES])
    cut = len(kept) < len(text.rstrip("\n"))
    fence = "```"
    while fence in kept:
        fence += "`"
    return f"{fence}\n{kept}\n{fence}" + ("\n(shortened)" if cut else "")


def _failed(what: str, outcome: StepOutcome) -> str:
    return f"I could not {what}. The tool said:\n{shown(outcome.text or '(nothing)')}"


def _report_done(done: str, what: str, outcome: StepOutcome) -> str:
    return _failed(what, outcome) if outcome.failed else done


def _report_read(path: str, span: str, outcome: StepOutcome) -> str:
    if outcome.failed:
        return _failed(f"read {path}", outcome)
    if outcome.images:
        return f"{path} is an image. I have read it, but I cannot see pictures."
    if not outcome.text.strip():
        return f"{path} is empty."
    return f"Here is {path}{span}:\n{shown(outcome.text)}"


def _report_list(path: str, outcome: StepOutcome) -> str:
    if outcome.failed:
        return _failed(f"list {_place(path)}", outcome)
    names = _entries(outcome)
    if not names:
        return f"There is nothing in {_place(path)}."
    folders = sum(name.endswith("/") for name in names)
    counts = ((folders, "folder"), (len(names) - folders, "file"))
    census = _and([_count(number, noun) for number, noun in counts if number])
    return f"In {_place(path)} I see {census}:\n{shown(chr(10).join(names))}"


def _report_hits(noun: str, which: str, path: str, outcome: StepOutcome) -> str:
    if outcome.failed:
        return _failed(f"search {_place(path)}", outcome)
    hits = _entries(outcome)
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


def _entries(outcome: StepOutcome) -> list[str]:
    """Return the lines of a listing without notices; none if the call failed."""
    lines = [] if outcome.failed else outcome.text.splitlines()
    return [line for line in lines if line.strip() and not _NOTICE.fullmatch(line)]


def _place(path: str) -> str:
    return "this folder" if path == "." else path


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# ---------------------------------------------------------------- a project

_MANIFESTS = ("pyproject.toml", "package.json", "cargo.toml", "go.mod")


def _describe(found: "RequestMatch") -> OfflineStep:
    everything = {"pattern": "*", "path": ".", "limit": _FIND_LIMIT}
    return OfflineStep(
        title="look at this project",
        calls=(StepCall("ls", {"path": "."}), StepCall("find", everything)),
        more=lambda seen: tuple(
            StepCall("read", {"path": name, "offset": 1, "limit": _SHOWN_LINES})
            for name in _papers(seen)
        ),
        report=lambda seen: found.here + _report_project(seen),
        patient=True,
    )


def _papers(seen: Outcomes) -> tuple[str, ...]:
    """Return the files of a listing that describe a project: a readme and a manifest."""
    names = _entries(seen[0])
    readme = [name for name in names if name.lower().startswith("readme")][:1]
    manifest = [name for name in names if name.lower() in _MANIFESTS][:1]
    return tuple(readme + manifest)


def _report_project(seen: Outcomes) -> str:
    listing, found, *papers = seen
    parts = [_report_list(".", listing)]
    endings: Counter[str] = Counter()
    for path in _entries(found):
        name = path.rsplit("/", 1)[-1]
        if "." in name.lstrip(".") and not path.startswith((".git/", "./.git/")):
            endings["." + name.rsplit(".", 1)[1]] += 1
    if endings:
        ordered = sorted(endings.items(), key=lambda item: (-item[1], item[0]))
        kinds = ", ".join(f"{count} {ending}" for ending, count in ordered[:6])
        parts.append(f"Files by ending: {kinds}.")
    for name, outcome in zip(_papers(seen), papers, strict=False):
        if not outcome.failed and outcome.text.strip():
            start = [line for line in outcome.text.split("\n") if line.strip()][:8]
            parts.append(f"{name} begins:\n{shown(chr(10).join(start))}")
    parts.append("I can count and quote, but I do not understand code: for that, connect a model.")
    return "\n\n".join(parts)


# ---------------------------------------------------------------- matching

_HERE = lazy_pattern(
    r"here|everywhere|everything|all files|(?:this|the|my)(?: current| whole| working)?"
    r" (?:folder|directory|project|repo|repository|code|codebase)",
    re.I,
)
_LOOKS_LIKE_PATH = lazy_pattern(r"[./~]\w|\w/|^[A-Z]{4,}$|^(?:Makefile|Dockerfile)$")
_FILE_NAME = lazy_pattern(r"\w\.\w+$")
_NO_PATH = lazy_pattern(
    r"an?|all|anything|code|everything|files?|folder|how|it|me|more|my|nothing|our|out|some"
    r"|something|that|the|them|these|this|those|what|why|your?",
    re.I,
)


class RequestMatch(msgspec.Struct, frozen=True):
    """A request that matches a pattern: its named groups, with quoted parts still masked."""

    words: Words
    parts: Mapping[str, str | None]
    cwd: str

    @property
    def here(self) -> str:
        return f"We are in {self.cwd}.\n" if self.cwd else ""

    def part(self, name: str) -> str:
        return self.parts.get(name) or ""

    def get(self, name: str) -> str:
        return self.words.inner(self.part(name))

    def number(self, name: str) -> int | None:
        return int(self.part(name)) if self.part(name) else None

    def paths(self) -> list[str]:
        listed = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", self.part("path"))
        return [path for part in listed if (path := self._path(part))]

    def folder(self) -> str:
        """Return the folder of the request, or the current one if none is named."""
        part = self.part("path")
        return "." if not part or _HERE.fullmatch(part) else self._path(part)

    def is_clear_path(self) -> bool:
        return is_quoted(self.part("path")) or bool(_LOOKS_LIKE_PATH.search(self.part("path")))

    def _path(self, part: str) -> str:
        path = self.words.inner(part)
        if is_quoted(part) or path in (".", ".."):
            return path
        path = path.rstrip(".,:;!?")
        return "" if _NO_PATH.fullmatch(path) or path.startswith("-") else path


class Row:
    """One kind of request. `build` returns None if the words match but the meaning does not.

    A request with `own_text` ends with the user's own text, including a final full stop.
    """

    def __init__(
        self,
        name: str,
        example: str,
        build: Callable[[RequestMatch], OfflineStep | None],
        *patterns: str,
        own_text: bool = False,
    ) -> None:
        self.name = name
        self.example = example
        self._build = build
        self._sources = [item if own_text else rf"(?:{item})\s*[.!?]*" for item in patterns]

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        # Compiled on first use: most sessions import this module but never use the model.
        return [re.compile(source, re.I | re.S) for source in self._sources]

    def fit(self, words: Words, text: str, cwd: str) -> Iterator[OfflineStep]:
        for match in filter(None, (pattern.fullmatch(text) for pattern in self._patterns)):
            if step := self._build(RequestMatch(words, match.groupdict(), cwd)):
                yield step


# ---------------------------------------------------------------- builders


def read_files(
    paths: Sequence[str], first: int | None = None, last: int | None = None
) -> OfflineStep:
    span = "" if first is None else f" from line {first}" + (f" to {last}" if last else "")
    lines = {} if first is None else {"offset": first}
    if first is not None and last is not None:
        lines["limit"] = max(1, last - first + 1)
    return OfflineStep(
        title=f"read {_and(paths)}{span}",
        calls=tuple(StepCall("read", {"path": path, **lines}) for path in paths),
        report=lambda seen: "\n\n".join(
            _report_read(path, span, outcome) for path, outcome in zip(paths, seen, strict=False)
        ),
    )


def _read(found: RequestMatch) -> OfflineStep | None:
    paths = found.paths()
    clear = found.is_clear_path() or re.match(r"read|cat", found.part("verb"), re.I)
    if not paths or not clear:
        return None
    if len(paths) == 1 and paths[0].endswith("/"):
        return _list_folder(paths[0])
    first = found.number("first") or (1 if found.part("last") else None)
    last = found.number("last") or (found.number("first") if found.part("one") else None)
    return read_files(paths, first, last)


def _list_folder(path: str) -> OfflineStep:
    return _single(f"list {_place(path)}", "ls", {"path": path}, partial(_report_list, path))


def _list(found: RequestMatch) -> OfflineStep | None:
    folder = found.folder()
    if found.part("asked") and _FILE_NAME.search(folder):
        return read_files([folder])
    return _list_folder(folder) if folder else None


def _look(found: RequestMatch) -> OfflineStep:
    return _single(
        "look at this folder",
        "ls",
        {"path": "."},
        lambda outcome: found.here + _report_list(".", outcome),
    )


def _search(found: RequestMatch) -> OfflineStep | None:
    text, path = found.get("text"), found.folder()
    if not text or not path:
        return None
    args = {"pattern": text, "path": path, "literal": True, "limit": _SEARCH_LIMIT}
    report = partial(_report_hits, "line", f'with "{text}"', path)
    return _single(f'search for "{text}" in {_place(path)}', "grep", args, report)


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
    path, ending = found.folder(), found.get("ending")
    language = _LANGUAGES.get(found.part("language").lower())
    pattern = language or (f"*{ending}" if ending else found.get("glob"))
    if not pattern or not path:
        return None
    args = {"pattern": pattern, "path": path, "limit": _FIND_LIMIT}
    report = partial(_report_hits, "file", f"named {pattern}", path)
    return _single(f"find {pattern} in {_place(path)}", "find", args, report)


def _write(found: RequestMatch) -> OfflineStep | None:
    paths, content = found.paths(), found.get("content")
    if len(paths) != 1 or not (found.is_clear_path() or found.part("file")):
        return None
    title, path = f"write {paths[0]}", paths[0]
    done = f"I wrote {_count(len(content), 'character')} to {path}."
    args = {"path": path, "content": content}
    return _single(title, "write", args, partial(_report_done, done, title))


def _edit(found: RequestMatch) -> OfflineStep | None:
    paths, old, new = found.paths(), found.get("old"), found.get("new")
    if len(paths) != 1 or not old:
        return None
    title, path = f"edit {paths[0]}", paths[0]
    done = f'I replaced "{old}" with "{new}" in {path}.'
    args = {"path": path, "edits": [{"oldText": old, "newText": new}]}
    return _single(title, "edit", args, partial(_report_done, done, title))


def _run(found: RequestMatch) -> OfflineStep | None:
    command, folder = found.get("command").strip(), found.folder()
    if not is_quoted(found.part("command")):
        command = re.sub(r"(?<=\w)[.!]$", "", command)
        if _NO_PATH.fullmatch(command.split(maxsplit=1)[0]):
            return None
    if folder not in ("", "."):
        from shlex import quote

        command = f"cd {quote(folder)} && {command}"
    if not command:
        return None
    return _single(f"run `{command}`", "bash", {"command": command}, partial(_report_run, command))


def _think(found: RequestMatch) -> OfflineStep:
    topic = found.get("topic").rstrip(".!? ")
    return say(f"think about {topic}", _THOUGHT.format(topic), aloud=True)


def _says(title: str, text: str) -> Callable[[RequestMatch], OfflineStep]:
    return lambda found: say(title, text)


# ---------------------------------------------------------------- the table

_PATH = rf"(?:{MARK}|[^\s,{MARK[1:-1]}]+)"
_PATHS = rf"{_PATH}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+){_PATH})*"
_WHERE = rf"(?P<path>{_HERE.pattern}|{_PATH})"
_IN = r"(?:in|of|under|inside|within|from)(?: the (?:folder|directory|file))?"
_IN_WHERE = rf"(?: {_IN} {_WHERE})?"
_SHOW = r"(?P<verb>(?:read|show|open|cat|print|display|view|look at|give)(?: me| us)?)"
_THE_FILE = r"(?: the)?(?: (?:files?|contents?|text)(?: of)?)?(?: the)?(?: file)?"
_SPAN = (
    r"(?: (?P<one>line)| lines?) (?P<first>\d{1,9})"
    r"(?:\s*(?:-|–|to|through)\s*(?P<last>\d{1,9}))?"
)
_FIND = r"(?:find|list|show|locate|look for|search for)(?: me)?(?: all)?(?: the)?"
_THE_TEXT = r"(?: the (?:text|word|string|phrase))?"
_NEW_FILE = (
    r"(?: an?| the)?(?: new)?(?P<file>(?: text)? file)?"
    rf"(?: named| called)? (?P<path>{_PATH})"
)
_CHANGE = r"(?:replace|change) (?P<old>.+?) (?:with|by|to|into) (?P<new>.+)"

TABLE: tuple[Row, ...] = (
    Row(
        "greeting",
        "hello",
        _says("greet", GREETING),
        r"(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening|day))"
        r"(?:,? (?:there|ludolf|you|all))?",
    ),
    Row(
        "thanks",
        "thank you",
        _says("take the thanks", THANKS),
        r"(?:thanks|thank you|cheers)(?: a lot| so much| very much)?(?:,? ludolf)?",
    ),
    Row(
        "help",
        "what can you do?",
        _says("list what I can do", HELP),
        r"/?help(?: me)?|what (?:can|do) you do|who are you|what are you"
        r"|how do (?:i use you|you work)|show(?: me)?(?: the)? help",
    ),
    Row(
        "connecting",
        "how do I connect a real model?",
        _says("say how to connect a model", CONNECT),
        r"how (?:do|can|could) (?:i|we) (?:connect|use|add|choose|configure|set up|switch to)"
        r"(?: to)?(?: an?| the| my| another)?(?: real| other| better)? ?"
        r"(?:model|key|api key|provider|llm)",
    ),
    Row(
        "project",
        "summarise this project",
        _describe,
        r"(?:summari[sz]e|describe|explain|explore|analy[sz]e|give me an overview of"
        r"|tell me about|what is|what does|look at) (?:this|the|my)(?: current| whole)?"
        r" (?:project|repo|repository|codebase|code)(?: do| about)?",
    ),
    Row(
        "folder",
        "what is in this folder?",
        _look,
        r"(?:what(?:'s| is)|what files are) in (?:this|the|my)(?: current| working)?"
        r" (?:folder|directory)|(?:what|which) files (?:are|exist) (?:here|there)"
        r"|where (?:am i|are we)|(?:describe|summari[sz]e) (?:this|the) (?:folder|directory)",
    ),
    Row(
        "lines",
        "show me src/x.py lines 10-20",
        _read,
        rf"{_SHOW}{_THE_FILE} (?P<path>{_PATH}),?(?: from)?{_SPAN}",
        rf"{_SHOW}(?: the)?{_SPAN} {_IN} (?P<path>{_PATH})",
        rf"{_SHOW}(?: the)? first (?P<last>\d{{1,9}}) lines {_IN} (?P<path>{_PATH})",
    ),
    Row(
        "find",
        "find files named *.py in src",
        _find,
        rf"{_FIND} files? (?:named|called|matching|like) (?P<glob>{_PATH}){_IN_WHERE}",
        rf"{_FIND} files? (?:ending (?:in|with)|with the (?:ending|extension))"
        rf" (?P<ending>\.?[\w.]+?){_IN_WHERE}",
        r"(?:find|list|show|locate)(?: me)?(?: all)?(?: the)? "
        r"(?:(?P<glob>[^\s,]*[*?][^\s,]*)(?: files)?"
        rf"|(?P<language>{'|'.join(_LANGUAGES)}) files){_IN_WHERE}",
    ),
    Row(
        "search",
        "search for TODO in src",
        _search,
        rf"(?:search|grep) (?:in )?{_WHERE} for (?P<text>.+?)",
        rf"where is (?P<text>{_PATH}) (?:used|defined|mentioned|called){_IN_WHERE}",
        r"(?:search|grep|look|find)(?: the (?:code|project|files))?(?: for)?(?: all)?"
        rf"{_THE_TEXT} (?P<text>.+?) (?:in|under|inside|within)(?: the (?:folder|file))?"
        rf" {_WHERE}",
        rf"(?:search for|grep(?: for)?|look for){_THE_TEXT} (?P<text>.+?)",
    ),
    Row(
        "list",
        "list src",
        _list,
        r"(?:list|ls|dir)(?: me)?(?: all)?(?: the)?(?: (?:files|folders|entries|contents?))*"
        rf"(?:(?: {_IN})? {_WHERE}(?: folder| directory)?)?",
        rf"(?P<asked>what(?:'s| is)|what files are) {_IN} {_WHERE}(?: folder| directory)?",
        r"show(?: me)?(?: all)?(?: the)? (?:files|folders|entries|contents?)" + _IN_WHERE,
    ),
    Row("read", "read README.md", _read, rf"{_SHOW}{_THE_FILE} (?P<path>{_PATHS})"),
    Row(
        "write",
        "write hello.txt with Hello",
        _write,
        rf"(?:write|create|make|save){_NEW_FILE}(?: file)?"
        rf"(?::|,?\s+(?:with|containing|saying|that says|which says)(?: the| this)?"
        r"(?: (?:text|contents?|line|words?|following))*:?)\s+(?P<content>.+)",
        rf"(?:write|create|make|save){_NEW_FILE}:?\s+(?P<content>{MARK})",
        r"(?:write|save|put)(?: the (?:text|line|words?))? (?P<content>.+?)"
        rf" (?:to|into|in|as)(?: an?| the)?(?: new)?(?P<file> file)?(?: named| called)?"
        rf" (?P<path>{_PATH})",
        r"(?:create|make|touch)(?: an?| the)?(?: new)?(?: empty)?(?P<file> file)"
        rf"(?: named| called)? (?P<path>{_PATH})",
        own_text=True,
    ),
    Row(
        "edit",
        'replace "old" with "new" in notes.txt',
        _edit,
        r"(?:replace|change|substitute)(?: the (?:text|word|line|string))? (?P<old>.+?)"
        rf" (?:with|by|to|into) (?P<new>.+) in(?: the file)? (?P<path>{_PATH})",
        rf"in(?: the file)? (?P<path>{_PATH}),? {_CHANGE}",
        rf"(?:edit|modify|update|change)(?: the file)? (?P<path>{_PATH})[:,]?(?: and| to)?"
        rf" {_CHANGE}",
        own_text=True,
    ),
    Row(
        "tests",
        "run the tests",
        _says("ask for the test command", TESTS),
        r"run(?: the| all| all the| my)?(?: unit)? tests?(?: suite)?",
    ),
    Row(
        "command",
        "run `ls -la`",
        _run,
        rf"(?:run|execute)(?: the (?:command|script))?:? (?P<command>{MARK})"
        rf" in(?: the (?:folder|directory))? (?P<path>{_PATH})",
        r"(?:run|execute|exec)(?: (?:the|this) (?:shell )?(?:command|script))?:?\s+"
        r"(?P<command>.+)",
        r"[$!]\s*(?P<command>.+)",
        r"(?P<command>git (?:status|log|diff|branch|show)\b.*|ls -.*|pwd|date|whoami)",
        own_text=True,
    ),
    Row(
        "thinking",
        "think about how to name this function",
        _think,
        r"think(?: hard| carefully| aloud| out loud)?(?: about| of| through| over)?"
        r" (?P<topic>.+)",
        own_text=True,
    ),
)
