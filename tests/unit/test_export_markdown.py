"""Markdown as HTML: what people and models write, and what attackers write."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludolf.page.blocks import parse_lines, parse_markdown
from ludolf.page.inline import safe_url
from ludolf.page.markdown import render_inline, render_markdown
from tests.export_page import Reader

LINK = 'rel="noopener noreferrer nofollow" target="_blank"'
REMOTE = '<span class="remote">image</span>'
CODE = '<button class="copy" type="button">Copy</button><pre><code>'


@pytest.mark.parametrize(
    ("source", "html"),
    [
        (
            "*a* _b_ **c** __d__ ~~e~~",
            "<em>a</em> <em>b</em> <strong>c</strong> <strong>d</strong> <del>e</del>",
        ),
        ("***both***", "<strong><em>both</em></strong>"),
        ("**a *b* c**", "<strong>a <em>b</em> c</strong>"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        ("**open and *open", "**open and *open"),
        ("~one~", "~one~"),
        ("`a <b> *c*` ``x`y``", "<code>a &lt;b&gt; *c*</code> <code>x`y</code>"),
        ("`open", "`open"),
        (r"\*not\* \<b\>", "*not* &lt;b&gt;"),
        ("&amp; &lt;b&gt; &#60; &nope", "&amp; &lt;b&gt; &lt; &amp;nope"),
        ("<b onclick=x>", "&lt;b onclick=x&gt;"),
        ("a<br>b<br/>c", "a<br>b<br>c"),
        ("[a](https://b.c)", f'<a href="https://b.c" {LINK}>a</a>'),
        (
            '[**a**](https://b.c/d_(e) "t")',
            f'<a href="https://b.c/d_(e)" {LINK}><strong>a</strong></a>',
        ),
        ("[a](<https://b.c/d>)", f'<a href="https://b.c/d" {LINK}>a</a>'),
        ("[](https://b.c)", f'<a href="https://b.c" {LINK}>https://b.c</a>'),
        ("[https://a.b](https://c.d)", f'<a href="https://c.d" {LINK}>https://a.b</a>'),
        ("[a](src/b.py)", '<span class="dead" title="src/b.py">a</span>'),
        ("[a](javascript:x)", '<span class="dead" title="javascript:x">a</span>'),
        ("[a] (b)", "[a] (b)"),
        ("[a]", "[a]"),
        ("<https://b.c>", f'<a href="https://b.c" {LINK}>https://b.c</a>'),
        ("<me@b.c>", f'<a href="mailto:me@b.c" {LINK}>me@b.c</a>'),
        ("see https://b.c/d_e).", f'see <a href="https://b.c/d_e" {LINK}>https://b.c/d_e</a>).'),
        ("xhttps://b.c", "xhttps://b.c"),
        ("![a](https://b.c/d.png)", f'<a href="https://b.c/d.png" {LINK}>{REMOTE} a</a>'),
        ("![a](data:image/png;base64,AAAA)", '<img src="data:image/png;base64,AAAA" alt="a">'),
        ("[![a](https://b.c/d.png)](https://e.f)", f'<a href="https://e.f" {LINK}>{REMOTE} a</a>'),
        ("a\\\nb", "a<br>\nb"),
    ],
)
def test_text_inside_a_line(source: str, html: str) -> None:
    assert render_inline(source) == html


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ("one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"),
        ("one  \ntwo", "<p>one<br>\ntwo</p>"),
        ("# A #\n### B", '<h3 class="l1">A</h3><h5 class="l3">B</h5>'),
        ("#hash", "<p>#hash</p>"),
        ("A\n===\nB\n---", '<h3 class="l1">A</h3><h4 class="l2">B</h4>'),
        ("a\n\n---\n\n* * *", "<p>a</p><hr><hr>"),
        (
            "> a\nlazy\n> > b",
            "<blockquote><p>a\nlazy</p><blockquote><p>b</p></blockquote></blockquote>",
        ),
        ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
        (
            "- a\n  - b\n    - c\n- d",
            "<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ul>",
        ),
        ("1. a\n  - b\n2. c", "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>"),
        ("3) a\n4) b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("text\n- a", "<p>text</p><ul><li>a</li></ul>"),
        ("text\n2. no list", "<p>text\n2. no list</p>"),
        ("- a\n\ntext", "<ul><li>a</li></ul><p>text</p>"),
        (
            "- [ ] a\n- [x] b",
            '<ul><li class="task"><span class="box">☐</span> a</li>'
            '<li class="task"><span class="box">☑</span> b</li></ul>',
        ),
        (
            "- ```\n  x\n\n  y\n  ```\n- b",
            f'<ul><li><div class="code">{CODE}x\n\ny</code></pre></div></li><li>b</li></ul>',
        ),
        (
            "```\na\n  <b>\n```\nafter",
            f'<div class="code">{CODE}a\n  &lt;b&gt;</code></pre></div><p>after</p>',
        ),
        ("~~~~\n~~~\n~~~~", f'<div class="code">{CODE}~~~</code></pre></div>'),
        ("```\nnever closed", f'<div class="code">{CODE}never closed</code></pre></div>'),
        (
            "    indented\n\n    more",
            f'<div class="code">{CODE}indented\n\nmore</code></pre></div>',
        ),
        (
            "```py x\n1\n```",
            f'<div class="code" data-lang="py">{CODE}1</code></pre></div>',
        ),
        (
            "| a | b |\n|:-:|--:|\n| 1 | `x` \\| y |\n| 2 |",
            '<div class="table"><table><thead><tr><th class="center">a</th>'
            '<th class="right">b</th></tr></thead>'
            '<tbody><tr><td class="center">1</td><td class="right"><code>x</code> | y</td></tr>'
            '<tr><td class="center">2</td></tr></tbody></table></div>',
        ),
        ("a | b\nno table", "<p>a | b\nno table</p>"),
        ("<div>\n*a*\n</div>", "<p>&lt;div&gt;\n<em>a</em>\n&lt;/div&gt;</p>"),
        ("", ""),
    ],
)
def test_blocks(source: str, html: str) -> None:
    assert render_markdown(source) == html


def test_typed_line_ends_can_be_kept() -> None:
    assert render_markdown("one\ntwo", breaks=True) == "<p>one<br>\ntwo</p>"


@pytest.mark.parametrize("url", ["http://a", "HTTPS://a.b/c?d#e", "mailto:a@b.c"])
def test_links_may_lead_to_the_web_and_to_mail(url: str) -> None:
    assert safe_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "javascript:x",
        " https://a",
        "https:///x",
        "data:text/html,x",
        "//a.b",
        "file:///etc",
        "",
        "https://a\nb",
        "ht\ttps://a",
        "mailto:",
        "\x01https://a",
    ],
)
def test_links_may_lead_nowhere_else(url: str) -> None:
    assert safe_url(url) is None


@given(st.text(alphabet="*_`~[]()<>!|#-+=.1 \n\t\\&;:\"'/ahtps", max_size=120))
def test_any_text_gives_well_formed_harmless_markup(source: str) -> None:
    html = render_markdown(source)
    reader = Reader(html)
    assert reader.wrong == []
    assert _balanced(html)


_HOSTILE = [
    "*a ",
    "**a*b_",
    "***a***",
    "_a_*",
    "~~a",
    "[",
    "![",
    "](",
    "![](u)",
    "[![a](u)",
    '[a](b "',
    "`",
    "\\`",
    "<a",
    "<https://",
    "ahttps://",
    "&a;",
    "> ",
    "- ",
    "- a\n\n",
    "1. \n ",
    "> \n",
    "#",
    "a\n===\n",
    "|",
    "|a|b|\n|-|-|\n",
    "``` ",
    "```\n",
    " ",
    "\t",
    "- a\n   - b\n      - c\n",
    "![a](data:image/png;base64,",
    "\r",
    "<a@",
]


@pytest.mark.parametrize("part", _HOSTILE)
def test_hostile_text_takes_no_more_than_its_length_deserves(part: str) -> None:
    """Eight times the text must not take anything like sixty-four times as long."""
    short = part * (8_000 // len(part))
    assert len(render_markdown(short)) < 60 * len(short) + 1000
    # The best of some, and only of our own work: the machine may be busy with others'.
    once = min(_seconds(short), _seconds(short))
    assert any(_seconds(short * 8) < 30 * once + 0.2 for _ in range(3))


_PLAIN_PIECES = (
    *("word", "Über", "漢字", '"q"', ".", "x 1", "a-b", "\\", "&", "<", "`", "*"),
    *(" ", "  ", "   ", "    ", "\t", "\xa0", "\x0b", "\u2028", "\x1c"),
    *("\n", "\n ", "\n\n", "\n \n", "  \n", "\n    ", "\n- ", "\n1. ", "|", "---"),
)


def test_texts_of_paragraphs_only_have_the_blocks_that_their_lines_have() -> None:
    chance = random.Random(7)
    for _ in range(4000):
        text = "".join(chance.choices(_PLAIN_PIECES, k=chance.choice((2, 5, 12))))
        assert parse_markdown(text) == parse_lines(text.expandtabs(4).split("\n")), repr(text)


def _seconds(source: str) -> float:
    start = time.thread_time()
    render_markdown(source)
    return time.thread_time() - start


def _balanced(html: str) -> bool:
    from html.parser import HTMLParser

    class Stack(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []
            self.fine = True

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag not in ("br", "hr", "img"):
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            self.fine = self.fine and bool(self.open) and self.open.pop() == tag

    stack = Stack()
    stack.feed(html)
    stack.close()
    return stack.fine and not stack.open
