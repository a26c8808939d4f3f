"""Texts are plain technical English: few of the words that the style rules out."""

import ast
import re
from collections.abc import Iterable, Iterator

from tests.house.source import ROOT, modules

# For each 10,000 words.
MOST_IN_SOURCE = 5.0
MOST_IN_PAGES = 10.0
RULED_OUT = re.compile(
    r"\b(anew|spoilt|whoever|nobody|somebody|tells?|told|telling|goes on|by itself|is no|are no"
    r"|beside|lends?|trouble)\b",
    re.IGNORECASE,
)
_CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)

Text = tuple[str, str]


def _strings() -> Iterator[Text]:
    """The strings and docstrings of the package that are sentences, each with its place."""
    for module in modules():
        for node in module.nodes():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield module.at(node), node.value


def _pages() -> Iterator[Text]:
    """The Markdown pages without their code blocks."""
    for path in sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")}):
        yield path.relative_to(ROOT).as_posix(), _CODE_BLOCK.sub(" ", path.read_text())


def _check(texts: Iterable[Text], most: float) -> None:
    words, hits = 0, []
    for place, text in texts:
        words += len(text.split())
        hits += [f"{place}: {word}" for word in RULED_OUT.findall(text)]
    rate = 10_000 * len(hits) / max(words, 1)
    assert rate <= most, f"{rate:.1f} in 10,000 words\n" + "\n".join(hits)


def test_strings_and_docstrings_use_plain_words() -> None:
    _check(_strings(), MOST_IN_SOURCE)


def test_pages_use_plain_words() -> None:
    _check(_pages(), MOST_IN_PAGES)
