"""Tools for tests of the page: sessions as files, a hostile one, and a strict reader of HTML."""

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from ludolf.base import without_surrogates
from ludolf.page.html import export_html
from ludolf.session.tree import Session, open_session

ATTACKS = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "</style><script>window.pwned=1</script>",
    "</title></template></pre></code><img src=x onerror=window.pwned=1>",
    "<img src=http://127.0.0.1:9/x.png onerror=window.pwned=1>",
    "<svg onload=window.pwned=1><animate onbegin=window.pwned=1 attributeName=x></svg>",
    "<iframe src=javascript:window.pwned=1></iframe>",
    "<details open ontoggle=window.pwned=1>",
    '"><b onmouseover=window.pwned=1>x</b>',
    "' onfocus='window.pwned=1' autofocus='",
    "` onclick=`window.pwned=1`",
    "[click](javascript:window.pwned=1)",
    "[click](JaVaScRiPt:window.pwned=1)",
    "[click](java\tscript:window.pwned=1)",
    "[click](\x01javascript:window.pwned=1)",
    "[click](data:text/html,<script>window.pwned=1</script>)",
    "[click](vbscript:x)",
    '[click](https://a.b"onmouseover="window.pwned=1)',
    "[click](<https://a.b' onmouseover='window.pwned=1>)",
    '[a]("onerror="window.pwned=1)',
    "![x](http://127.0.0.1:9/y.png)",
    "![x](javascript:window.pwned=1)",
    "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9d2luZG93LnB3bmVkPTE+)",
    '![" onerror="window.pwned=1](data:image/png;base64,AAAA)',
    "<https://a.b/\"onmouseover='window.pwned=1'>",
    "https://a.b/\"onmouseover='window.pwned=1'",
    '```"><script>window.pwned=1</script>\ncode </code></pre><script>window.pwned=1</script>\n```',
    "```html\n<script>window.pwned=1</script>\n```",
    "```diff\n+<script>window.pwned=1</script>\n```",
    "| <script>window.pwned=1</script> | b |\n|--|--|\n| <img src=x onerror=window.pwned=1> | 2 |",
    "- [ ] <script>window.pwned=1</script>",
    "# <script>window.pwned=1</script>",
    "&lt;script&gt;window.pwned=1&lt;/script&gt; &#60;img src=x onerror=window.pwned=1&#62;",
    "<!--><script>window.pwned=1</script-->",
    "<![CDATA[<script>window.pwned=1</script>]]>",
    "\x1b]0;<script>window.pwned=1</script>\x07\x1b[31m<img src=x onerror=window.pwned=1>\x1b[0m",
    '\x1b[31"onclick=window.pwned=1;m text',
    "\u202e<script>\u2066window.pwned=1</script>\x00\x08\x7f\x9b31m",
    "{{script}}{{title}}{{data}}",
    "\ud83d<script>window.pwned=1</script>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<base href=http://127.0.0.1:9/><link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<style>@import url(http://127.0.0.1:9/x.css);</style>",
    "<form action=http://127.0.0.1:9/><input name=data><button id=conversation>",
    "a\u2028b\u2029</script>",
)

_COMMON = {"class", "id"}
_PLAIN = (
    "b blockquote body br code dd del dl dt em figcaption figure footer h2 h3 h4 h5 h6 head header "
    "hr kbd li main mark nav noscript p pre small strong style summary table tbody td template th "
    "thead title tr ul"
)
ALLOWED: dict[str, set[str]] = {
    **dict.fromkeys(_PLAIN.split(), _COMMON),
    "html": {"lang"},
    "meta": {"charset", "http-equiv", "content", "name"},
    "link": {"rel", "href"},
    "a": _COMMON | {"href", "rel", "target", "title", "data-go", "aria-current"},
    "article": _COMMON | {"data-i"},
    "aside": _COMMON | {"aria-label"},
    "button": _COMMON | {"type", "title", "aria-label", "aria-controls", "aria-pressed"},
    "circle": {"cx", "cy", "r"},
    "details": _COMMON | {"open"},
    "dialog": _COMMON | {"aria-label"},
    "div": _COMMON
    | {"role", "tabindex", "aria-label", "aria-live", "aria-orientation", "data-lang"},
    "h1": {"dir"},
    "img": {"src", "alt", "loading"},
    "input": {"id", "type", "placeholder", "aria-label", "autocomplete", "spellcheck"},
    "ol": _COMMON | {"start"},
    "option": {"value"},
    "output": {"id", "for"},
    "path": _COMMON | {"d"},
    "script": {"id", "type"},
    "section": _COMMON | {"aria-label"},
    "select": {"id", "aria-label"},
    "span": _COMMON | {"aria-hidden", "dir", "title", "data-n"},
    "svg": {"viewbox", "aria-hidden", "role", "aria-label", "preserveaspectratio"},
    "time": _COMMON | {"datetime"},
}
_LINK = re.compile(r"(?:#entry-.*|#conversation|https?://[^\s/].*|mailto:.+)\Z", re.DOTALL)
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}\Z")


class Reader(HTMLParser):
    """Notes the elements of a page and everything about them that is not on the list."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.wrong: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.feed(page)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def having(self, tag: str, css: str = "") -> list[dict[str, str]]:
        wanted = set(css.split())
        return [
            attrs
            for name, attrs in self.tags
            if name == tag and wanted <= set(attrs.get("class", "").split())
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag == "script":
            self.scripts.append("")
        elif tag == "style":
            self.styles.append("")
        if tag not in ALLOWED or not set(given) <= ALLOWED[tag] or len(given) != len(attrs):
            self.wrong.append(f"<{tag} {given}>")
        if "href" in given and tag != "link" and not _LINK.match(given["href"]):
            self.wrong.append(f"<{tag} {given}>")
        if given.get("target") and "noopener" not in given.get("rel", ""):
            self.wrong.append(f"<{tag} {given}>")
        if tag == "img" and not _IMAGE.match(given.get("src", "")):
            self.wrong.append(f"<{tag} {given}>")

    def handle_data(self, data: str) -> None:
        last = self.tags[-1][0] if self.tags else ""
        if last == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        elif last == "style" and self.cdata_elem == "style":
            self.styles[-1] += data
        else:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"<!--{data}-->")

    def handle_pi(self, data: str) -> None:
        self.wrong.append(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self.wrong.append(f"<![{data}]>")


# ---------------------------------------------------------------- sessions


def header(**more: Any) -> dict[str, Any]:
    return {
        "type": "session",
        "version": 3,
        "id": "0199-sample",
        "timestamp": "2026-11-15T06:20:38.644Z",
        "cwd": "/project",
        **more,
    }


def entry(name: str, parent: str | None, kind: str, /, **fields: Any) -> dict[str, Any]:
    stamp = "2026-11-15T06:21:00.000Z"
    return {"type": kind, "id": name, "parentId": parent, "timestamp": stamp, **fields}


def message(name: str, parent: str | None, role: str, **fields: Any) -> dict[str, Any]:
    return entry(name, parent, "message", message={"role": role, "timestamp": 1, **fields})


def answer(
    name: str, parent: str | None, *blocks: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    usage = {
        "input": 100,
        "output": 20,
        "cacheRead": 3000,
        "cacheWrite": 0,
        "totalTokens": 3120,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.0125},
    }
    fields = {
        "content": list(blocks),
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": usage,
        "stopReason": "stop",
        **more,
    }
    return message(name, parent, "assistant", **fields)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def call(name: str, call_id: str = "c1", /, **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def result(
    name: str, parent: str, words: str, *, tool: str = "bash", call_id: str = "c1", **more: Any
) -> dict[str, Any]:
    fields = {"toolCallId": call_id, "toolName": tool, "content": [text(words)], "isError": False}
    return message(name, parent, "toolResult", **{**fields, **more})


def no_warning(words: str) -> None:
    raise AssertionError(words)


def session_of(folder: Path, *lines: Mapping[str, Any]) -> Session:
    """A session opened from a file with these lines; a header is put before them."""
    whole = lines if lines and lines[0]["type"] == "session" else (header(), *lines)
    path = folder / "2026-11-15T06-20-38-644Z_sample.jsonl"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in whole))
    return open_session(path, "/project", no_warning, write=False)


def page_of(folder: Path, *lines: Mapping[str, Any], **more: Any) -> str:
    """The page of a session with these entries."""
    session = session_of(folder, *lines)
    return export_html(session, folder / "page.html", overwrite=True, **more).read_text("utf-8")


def hostile_lines(evil: str) -> list[dict[str, Any]]:
    """A session with the same text at every place where text can stand."""
    image = {"type": "image", "data": evil, "mimeType": "image/png"}
    typed = {"type": "image", "data": "AAAA", "mimeType": evil}
    edits = [{"oldText": evil, "newText": evil + "x"}]
    calls = [
        call(evil, "c0", **{evil: evil, "n": {"deep": [evil]}}),
        call("bash", "c1", command=evil),
        call("bash", "c1b", command=f"{evil}\n{evil}"),
        call("read", "c2", path=evil),
        call("read", "c2b", path=f"/project/{evil}.py", offset=1, limit=2),
        call("write", "c3", path=evil, content=evil),
        call("edit", "c4", path=evil, edits=edits),
        call("grep", "c5", pattern=evil, path=evil, glob=evil),
        call("lost", evil, x=evil),
    ]
    name = f"id{evil}"
    diff = f"-1 {evil}\n+1 {evil}y\n   ...\n+x{evil}"
    lines: list[dict[str, Any]] = [
        header(id=evil, cwd=evil, parentSession=evil),
        entry("m1", None, "model_change", provider=evil, modelId=evil),
        entry("l1", "m1", "thinking_level_change", thinkingLevel=evil),
        message(
            "y1", "l1", "system", content=evil, sections={evil: evil}, toolsAdded=[{"name": evil}]
        ),
        message(name, "y1", "user", content=[text(evil), image, typed]),
        message(
            "u2",
            name,
            "user",
            content=f'<skill name="{evil}" location="x">\n{evil}\n</skill>\n\n{evil}',
        ),
        answer(
            "a1",
            "u2",
            {"type": "thinking", "thinking": evil},
            text(evil),
            *calls,
            provider=evil,
            model=evil,
            responseModel=evil,
            stopReason="error",
            errorMessage=evil,
        ),
    ]
    parent = "a1"
    for number, one in enumerate(calls[:-1]):
        tool, call_id = one["name"], one["id"]
        details = {"diff": diff} if tool == "edit" else {evil: evil}
        again = result(f"r{number}", parent, evil, tool=tool, call_id=call_id, details=details)
        lines.append(again)
        parent = f"r{number}"
    run = {"command": evil, "output": evil, "exitCode": 1, "cancelled": False, "truncated": True}
    lines += [
        message("b1", parent, "bashExecution", **run),
        entry("x1", "b1", "custom_message", customType=evil, content=evil, display=True),
        entry("x2", "x1", "custom", customType=evil, data={evil: evil}),
        entry("c9", "x2", "compaction", summary=evil, firstKeptEntryId="a1", tokensBefore=9),
        entry("s1", "c9", "branch_summary", fromId=evil, summary=evil),
        entry("e1", "s1", "context_edit", targetId=evil, replacement={"content": evil}),
        entry("g1", "e1", "usage", kind=evil, provider=evil, model=evil, usage={}),
        entry("o1", "g1", f"odd{evil}", data=evil),
        message("o2", "o1", f"role{without_surrogates(evil)}", content=evil),
        message("o3", "o2", "assistant", content=[text(evil)], broken=evil),
        {**message("t1", "o3", "user", content=evil), "timestamp": evil},
        message("u8", name, "user", content=f"another branch {evil}"),
        entry("n1", "t1", "session_info", name=evil),
        entry("l9", "n1", "label", targetId=name, label=evil),
        answer("a9", "l9", text(evil)),
    ]
    return lines


class Spec:
    """A tool whose description is as hostile as the rest."""

    def __init__(self, evil: str) -> None:
        self.name = evil
        self.description = evil
        self.parameters: dict[str, Any] = {
            "properties": {evil: {"type": evil, "description": evil}},
            "required": [evil],
        }
