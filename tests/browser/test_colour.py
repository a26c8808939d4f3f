"""Colours of code in a real browser: which words get which, when, and for how much work."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.page import page as page_module
from tests.browser.chrome import Chrome, Page
from tests.browser.view import view
from tests.export_page import answer, call, header, message, page_of, result, text

ASSETS = Path(page_module.__file__).with_name("assets")
KINDS = {"a", "c", "f", "k", "n", "s", "t"}
# Each coloured piece inside an element, in the order of the page.
COLOURED = """((selector) => {
    const found = [];
    for (const [name, paint] of CSS.highlights) {
        if (!name.startsWith("t-")) continue;
        for (const { startContainer: node, startOffset, endOffset } of paint) {
            const piece = [name.slice(2), node.data.slice(startOffset, endOffset)];
            if (node.parentElement?.closest(selector)) found.push({ node, startOffset, piece });
        }
    }
    const isAfter = (one, other) => one.node === other.node
        ? one.startOffset - other.startOffset
        : other.node.compareDocumentPosition(one.node) & Node.DOCUMENT_POSITION_FOLLOWING ? 1 : -1;
    return found.sort(isAfter).map(({ piece }) => piece);
})"""
LONG_STRING = 'x = 1\n"""open' + "\nwords" * 40 + '\nend"""\ny = 2'
HOSTILE = [
    *"'-[\\",
    '"\\"',
    '"""',
    '\\"""\n',
    "/*",
    "<!--",
    "--[[",
    "`\\`",
    "- ",
    "${",
    "#[",
    "a:",
    "0.",
    " \t",
    "\n- -",
    '"" ',
]


# ---------------------------------------------------------------- which words


@pytest.fixture(scope="module")
def reader(chrome: Chrome) -> Iterator[Page]:
    """A tab in which the tokens of any text can be asked for."""
    page = chrome.page()
    sources = [(ASSETS / name).read_text("utf-8") for name in ("languages.js", "tokens.js")]
    page.js("\n".join(sources))
    yield page
    page.close()


@pytest.mark.parametrize(
    ("language", "code", "kinds"),
    [
        (
            "python",
            '@a.b\ndef f(x: Int) -> None:  # c\n    return f"{x}" + 0x1F',
            [
                ("a", "@a.b"), ("k", "def"), ("f", "f"), ("t", "Int"), ("k", "None"), ("c", "# c"),
                ("k", "return"), ("s", 'f"{x}"'), ("n", "0x1F"),
            ],
        ),
        ("py", '"""a\n\n<b>""" größe(1)', [("s", '"""a\n\n<b>"""'), ("f", "größe"), ("n", "1")]),
        ("js", "const a = `x\n${b}` // c", [("k", "const"), ("s", "`x\n${b}`"), ("c", "// c")]),
        ("go", "func a() { /* c */ }", [("k", "func"), ("f", "a"), ("c", "/* c */")]),
        ("c", "#include <a>\n x = 1.5e3;", [("a", "#include"), ("n", "1.5e3")]),
        ("rust", "fn a<'a>(b: &'a str)", [("k", "fn"), ("k", "str")]),
        ("bash", 'echo "$a" $b # c', [("k", "echo"), ("s", '"$a"'), ("a", "$b"), ("c", "# c")]),
        ("json", '{"a": "b", "c": 1}', [("a", '"a"'), ("s", '"b"'), ("a", '"c"'), ("n", "1")]),
        ("yaml", "a: 1\n- b: x # c", [("a", "a"), ("n", "1"), ("a", "- b"), ("c", "# c")]),
        (".toml", '[a]\nb = "c"', [("a", "[a]"), ("a", "b"), ("s", '"c"')]),
        ("sql", "SELECT a FROM b -- c", [("k", "SELECT"), ("k", "FROM"), ("c", "-- c")]),
        ("html", '<!-- c --><a b="d"', [("c", "<!-- c -->"), ("a", "<a"), ("s", '"d"')]),
        ("css", "a { color: #fff; }", [("a", "color"), ("a", "#fff")]),
        ("makefile", "all: $(A)\n\tmake x", [("a", "all"), ("a", "$(A)")]),
    ],
)  # fmt: skip
def test_code_is_coloured(
    reader: Page, language: str, code: str, kinds: list[tuple[str, str]]
) -> None:
    tokens = reader.js(f"tokensOf({json.dumps(code)}, languageOf({json.dumps(language)}))")
    assert [(kind, code[start:end]) for kind, start, end in tokens] == kinds


def test_an_unknown_language_has_no_colours(reader: Page) -> None:
    assert reader.js("languageOf('nothing') === undefined") is True
    assert reader.js("languageOf('__proto__') === undefined") is True


def test_hostile_code_takes_no_more_than_its_length_deserves(reader: Page) -> None:
    slow = reader.js(
        f"""(() => {{
            const seconds = (text, language) => {{
                const start = performance.now();
                tokensOf(text, language);
                return (performance.now() - start) / 1000;
            }};
            const slow = [];
            for (const {{ names }} of LANGUAGES.languages)
            for (const part of {json.dumps(HOSTILE)}) {{
                const language = languageOf(names.split(" ")[0]);
                const text = part.repeat(2000 / part.length);
                const once = Math.min(seconds(text, language), seconds(text, language));
                const more = seconds(text.repeat(8) + "\\\\", language);
                if (more > 30 * once + 0.2) slow.push([names, part, once, more]);
            }}
            return slow;
        }})()"""
    )
    assert slow == []


# ---------------------------------------------------------------- on the page


def _read(name: str, parent: str | None, path: str, code: str) -> list[dict[str, Any]]:
    """A call that reads a file, and its result."""
    asked = answer(f"{name}-asked", parent, call("read", name, path=path))
    return [asked, result(name, f"{name}-asked", code, tool="read", call_id=name)]


def _fence(name: str, parent: str | None, code: str) -> dict[str, Any]:
    return answer(name, parent, text(f"```python\n{code}\n```"))


def _file(folder: Path, *lines: dict[str, Any]) -> str:
    target = folder / "page.html"
    target.write_text(page_of(folder, *lines))
    return target.as_uri()


def _coloured(page: Page, selector: str) -> list[tuple[str, str]]:
    return [tuple(one) for one in page.js(f"{COLOURED}({json.dumps(selector)})")]


def _wait(page: Page, selector: str, *, empty: bool = False) -> None:
    page.wait(f"({COLOURED}({json.dumps(selector)}).length === 0) === {json.dumps(empty)}")


def test_code_in_sight_is_coloured_and_its_text_is_left_alone(page: Page, tmp_path: Path) -> None:
    page.open(_file(tmp_path, _fence("a1", None, "def f():\n    return 1")))
    _wait(page, "#entry-a1")
    assert _coloured(page, "#entry-a1") == [("k", "def"), ("f", "f"), ("k", "return"), ("n", "1")]
    code = "document.querySelector('#entry-a1 code')"
    assert page.js(f"{code}.childNodes.length") == 1
    ink = page.js(f"getComputedStyle({code}).color")
    shown = {page.js(f"getComputedStyle({code}, '::highlight(t-{kind})').color") for kind in KINDS}
    assert len(shown) == len(KINDS)
    assert ink not in shown
    assert page.errors() == []


def test_a_fold_is_coloured_when_it_opens_and_goes_on_where_the_lines_above_ended(
    page: Page, tmp_path: Path
) -> None:
    page.open(_file(tmp_path, *_read("r1", None, "/project/a.py", LONG_STRING)))
    _wait(page, "#entry-r1")
    above, fold = "#entry-r1 .block > pre", "#entry-r1 .more > pre"
    shown, hidden = LONG_STRING[6:].split("\n")[:7], LONG_STRING[6:].split("\n")[7:]
    assert _coloured(page, above) == [("n", "1"), ("s", "\n".join(shown))]
    assert _coloured(page, fold) == []
    page.js("document.querySelector('#entry-r1 .more').open = true")
    _wait(page, fold)
    assert _coloured(page, fold) == [("s", "\n".join(hidden[:-1])), ("n", "2")]
    assert _coloured(page, "summary") == []


def test_of_a_long_fold_only_the_part_in_sight_is_coloured(page: Page, tmp_path: Path) -> None:
    code = "\n".join(f"x{number} = {number}" for number in range(2_000))
    page.open(_file(tmp_path, *_read("r1", None, "a.py", code)))
    page.js("document.querySelector('#entry-r1 .more').open = true")
    _wait(page, ".part:first-child")
    assert 50 < len(_coloured(page, "#entry-r1")) < 500
    page.js("document.querySelector('.part:last-child').scrollIntoView({block: 'end'})")
    _wait(page, ".part:last-child")
    assert _coloured(page, "#entry-r1")[-1] == ("n", "1999")
    _wait(page, ".part:first-child", empty=True)
    parts = "[...document.querySelectorAll('#entry-r1 pre')]"
    assert page.js(f"{parts}.map((part) => part.textContent).join('\\n')") == code


def test_what_is_far_away_is_coloured_on_arrival_and_not_after_leaving(
    page: Page, tmp_path: Path
) -> None:
    far = [message("u1", None, "user", content="words\n\n" * 300), _fence("a1", "u1", "x = 1")]
    page.open(_file(tmp_path, _fence("a0", None, "x = 1"), {**far[0], "parentId": "a0"}, far[1]))
    _wait(page, "#entry-a0")
    assert _coloured(page, "#entry-a1") == []
    page.js("document.getElementById('entry-a1').scrollIntoView()")
    _wait(page, "#entry-a1")
    _wait(page, "#entry-a0", empty=True)


def test_another_branch_is_coloured_when_it_is_shown(page: Page, tmp_path: Path) -> None:
    lines = [
        message("u1", None, "user", content="Go"),
        _fence("a1", "u1", "x = 1"),
        answer("a2", "u1", text("Here")),
    ]
    page.open(_file(tmp_path, *lines))
    page.js("document.querySelector('.fork a:not([aria-current])').click()")
    _wait(page, "#entry-a1")


def test_news_of_a_live_page_are_coloured(page: Page, tmp_path: Path) -> None:
    source = tmp_path / "session.jsonl"
    lines = [header(), message("u1", None, "user", content="Go")]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with view(source, tmp_path) as url:
        page.open(url)
        page.wait("document.getElementById('live').dataset.state === 'live'")
        with source.open("a") as file:
            file.write(json.dumps(_fence("a1", "u1", "x = 1")) + "\n")
        _wait(page, "#entry-a1")
        assert page.errors() == []


def test_on_paper_everything_is_coloured_that_is_not_folded(page: Page, tmp_path: Path) -> None:
    page.open(
        _file(
            tmp_path,
            message("u1", None, "user", content="words\n\n" * 300),
            *_read("r1", "u1", "a.py", LONG_STRING),
            _fence("a1", "r1", "x = 1"),
        )
    )
    assert _coloured(page, "article") == []
    page.js("void dispatchEvent(new Event('beforeprint'))")
    assert _coloured(page, "#entry-a1") == [("n", "1")]
    assert len(_coloured(page, "#entry-r1 .block > pre")) == 2
    assert _coloured(page, ".more") == []
    page.js("void dispatchEvent(new Event('afterprint'))")
    assert _coloured(page, "article") == []


def test_a_very_long_text_is_left_plain(page: Page, tmp_path: Path) -> None:
    longest = "x = 1\n" * 33_333
    page.open(
        _file(
            tmp_path,
            *_read("r1", None, "a.py", longest + "xyz"),
            *_read("r2", "r1", "a.py", longest + "y"),
        )
    )
    _wait(page, "#entry-r2")
    assert len(_coloured(page, "#entry-r2")) == 8
    assert _coloured(page, "#entry-r1") == []


def test_a_match_in_coloured_code_is_marked(page: Page, tmp_path: Path) -> None:
    page.open(_file(tmp_path, _fence("a1", None, "def needle(): return 1")))
    _wait(page, "#entry-a1")
    page.key("/")
    page.type("f needle(")
    page.wait("document.getElementById('found').textContent === '1'")
    page.key("Enter")
    marked = "[...CSS.highlights.get('found')].map(String)"
    assert page.wait(f"{marked}.length && {marked}") == ["f needle("]


@pytest.fixture
def plain(chrome: Chrome) -> Iterator[Page]:
    """A browser that cannot colour a text without changing it."""
    page = chrome.page()
    page.ask("Page.addScriptToEvaluateOnNewDocument", source="delete window.Highlight")
    yield page
    page.close()


def test_a_browser_without_highlights_gets_elements_instead(plain: Page, tmp_path: Path) -> None:
    plain.open(_file(tmp_path, *_read("r1", None, "/project/a.py", LONG_STRING)))
    spans = "[...document.querySelectorAll('#entry-r1 span[class^=t-]')]"
    plain.wait(f"{spans}.length === 2")
    plain.js("document.querySelector('#entry-r1 .more').open = true")
    plain.wait(f"{spans}.length === 4")
    assert plain.js(f"{spans}.map((span) => span.className)") == ["t-n", "t-s", "t-s", "t-n"]
    parts = "[...document.querySelectorAll('#entry-r1 pre')]"
    assert plain.js(f"{parts}.map((part) => part.textContent).join('\\n')") == LONG_STRING
    assert plain.errors() == []
