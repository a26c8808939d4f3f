"""What the documents point to is there: files, folders, and headings in them."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md")
    for path in ROOT.glob(pattern)
)
FENCE = re.compile(r"^ *(`{3,}|~{3,})")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^()\s<>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$")
ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")
PICTURE = re.compile(r"<img [^>]*src=\"([^\"]+)\"")
# Folders of the machine on which a page was written. /home/me and /home/ada are examples.
MACHINE = re.compile(r"(?<![\w.~>}])/(?:work|root|Users|home/(?!(?:me|ada)\b))[/\w.-]*")
REACHED_BY_FOLDER = "docs/decisions/"


def prose(text: str) -> Iterator[str]:
    """The lines outside of blocks of code."""
    fence = ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif mark:
            fence = mark[1]
        else:
            yield line


def links(text: str) -> list[str]:
    # A line break may be inside of a link's text, and code in backticks is no link.
    joined = re.sub(r"`[^`]*`", "", "\n".join(prose(text)))
    targets = (*LINK.findall(joined), *PICTURE.findall(joined))
    return [target for target in targets if not ELSEWHERE.match(target)]


def anchors(text: str) -> set[str]:
    """The names by which hosts of repositories make headings reachable."""
    seen: Counter[str] = Counter()
    names: set[str] = set(ANCHOR.findall(text))
    for line in prose(text):
        heading = HEADING.match(line)
        if heading:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            names.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return names


def missing(document: str, text: str) -> list[str]:
    """The links of a document that lead nowhere."""
    lost = []
    for target in links(text):
        path, _, anchor = unquote(target).partition("#")
        aim = (ROOT / document).parent / path if path else ROOT / document
        known = aim.exists() and aim.resolve().is_relative_to(ROOT)
        if known and anchor and aim.suffix == ".md":
            known = anchor in anchors(aim.read_text(encoding="utf-8"))
        if not known:
            lost.append(target)
    return lost


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_of_a_document_leads_somewhere(document: str) -> None:
    assert missing(document, (ROOT / document).read_text(encoding="utf-8")) == []


def test_every_guide_is_linked_from_the_readme() -> None:
    named = {target.partition("#")[0] for target in links((ROOT / "README.md").read_text("utf-8"))}
    guides = {name for name in DOCUMENTS if not name.startswith(REACHED_BY_FOLDER)}

    assert guides - named - {"README.md", "examples/README.md"} == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_no_folder_of_the_machine_it_was_written_on(document: str) -> None:
    assert MACHINE.findall((ROOT / document).read_text(encoding="utf-8")) == []


def test_links_that_lead_nowhere_are_found() -> None:
    text = (
        "# One\n## One\n[a](#one) [b](#one-1) [c](docs) [d](https://example.com)\n"
        "[e](#two) ![f](none.png) [g](docs/protocol.md#none) `[h](none)`\n```\n[i](none)\n```\n"
        '<img src="no.png" width="300" alt="j">\n'
    )

    assert missing("CHANGELOG.md", text.replace("#one", "#unreleased").replace("-1", "")) == [
        "#two",
        "none.png",
        "docs/protocol.md#none",
        "no.png",
    ]
    assert anchors(text) == {"one", "one-1"}
