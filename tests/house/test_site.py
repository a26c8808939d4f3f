"""The site of the documentation: every page is in it, and it loads nothing from elsewhere."""

import re
from pathlib import Path

import pytest

from scripts.make_site import ASSETS, MAIN, ROOT, make_site, pages, public_names
from tests.house.test_links import links, prose

CONFIG = (ROOT / "mkdocs.yml").read_text()
NAV = re.findall(r"^ +- .+: (\S+\.md)$", CONFIG, re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "docs"
    make_site(folder)
    return folder


def test_the_navigation_has_every_page_once() -> None:
    decisions = {page for page in pages() if page.startswith("docs/decisions/")}
    api = {f"api/{package}.md" for package in MAIN}

    assert sorted(NAV) == sorted({*pages(), *api, "docs/decisions/index.md"} - decisions)


def test_every_link_of_the_site_leads_to_a_file_of_it(site: Path) -> None:
    for page in site.rglob("*.md"):
        for target in links(page.read_text()):
            place = page.parent / target.partition("#")[0]
            assert place.is_file() or target.startswith("#"), f"{page.relative_to(site)}: {target}"


def test_words_after_the_language_become_the_title_of_a_block(site: Path) -> None:
    blocks = [line for page in site.rglob("*.md") for line in page.read_text().splitlines()]
    opened = [line for line in blocks if re.match(r"```\w+ ", line)]

    assert '```python title="host.py"' in opened
    assert [line for line in opened if not re.fullmatch(r'```\w+ title="\S+"', line)] == []


def test_nested_lists_are_indented_for_the_builder(site: Path) -> None:
    for page in pages():
        assert not any(re.match(r" {2,3}\S", line) for line in prose((site / page).read_text()))


def test_an_example_folder_is_shown_with_its_hidden_files(site: Path) -> None:
    text = (site / "examples/project/index.md").read_text()

    assert "## .pi/skills/release-notes/SKILL.md" in text
    assert "argument-hint:" in text


def test_the_api_pages_have_every_public_name(site: Path) -> None:
    for package in MAIN:
        text = (site / f"api/{package}.md").read_text()
        names = public_names(package)
        assert len(names) > 20
        assert [name for name in names if f"::: ludolf.{package}.{name}" not in text] == []


def test_examples_of_docstrings_are_code_blocks(site: Path) -> None:
    text = (site.with_name("docs-source") / "ludolf/sdk/session.py").read_text()

    assert "    ````pycon\n    >>> import asyncio\n" in text
    assert text.count("````") == 2 * text.count("````pycon")


def test_the_site_loads_nothing_from_another_server() -> None:
    own = "".join(path.read_text() for path in ASSETS.iterdir())

    assert re.findall(r"https?://\S+", CONFIG + own) == []
    assert "font: false" in CONFIG
    # Otherwise the plugin `offline` adds a script of another server.
    assert "polyfills: [iframe-worker.js]" in CONFIG
