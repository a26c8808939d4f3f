"""The page of a session in a real browser: what is seen, found, reached, and how fast."""

import json
from pathlib import Path

import pytest

from ludolf.page.html import export_html
from ludolf.session.tree import open_session
from tests.browser.chrome import Chrome, Page
from tests.browser.sample import CWD, long_lines, sample_file, sample_lines
from tests.export_page import no_warning

CURRENT = "document.querySelector('#conversation .here')"
SHOWN = "[...document.querySelectorAll('#conversation article')]"
FOUND = "document.getElementById('found').textContent"
LEFT_BEHIND = "Do the second one"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    source = folder / "session.jsonl"
    source.write_bytes(sample_file())
    session = open_session(source, CWD, no_warning, write=False)
    return export_html(session, folder / "page.html")


@pytest.fixture
def sample(page: Page, exported: Path) -> Page:
    """The page of the sample, opened."""
    page.open(exported.as_uri())
    return page


def _id_of(words: str) -> str:
    """The entry whose text begins so."""
    for line in sample_lines():
        blocks = line.get("message", {}).get("content", ())
        if any(str(block.get("text", "")).startswith(words) for block in blocks):
            return str(line["id"])
    raise AssertionError(words)


def _search(page: Page, words: str) -> None:
    page.key("/")
    page.type(words)
    page.wait(FOUND)


def test_the_page_shows_the_session_and_nothing_is_wrong(sample: Page, exported: Path) -> None:
    assert sample.js("document.title") == "Tide chart upside down"
    assert "Find out why and fix it" in sample.js(f"{SHOWN}[2].textContent")
    assert sample.js("document.querySelector('#conversation img').naturalWidth") == 640
    assert sample.js("document.querySelectorAll('.md table').length") == 1
    assert sample.js("document.querySelector('.plot .context').getTotalLength() > 500")
    assert sample.errors() == []
    assert sample.requests() == [exported.as_uri()]


def test_the_tree_lists_the_conversation_with_its_branches(sample: Page) -> None:
    assert sample.js("document.getElementById('count').textContent") == "32 of 49"
    rows = sample.js("[...document.querySelectorAll('.row')].map((row) => row.innerText.trim())")
    assert rows[2] == "grep def scale in src"
    assert rows[9].startswith(LEFT_BEHIND)
    levels = sample.js("[...document.querySelectorAll('.row')].map((row) => row.ariaLevel)")
    assert levels[8:14] == ["1", "2", "2", "2", "2", "1"]


def test_a_click_in_the_tree_leads_to_the_entry_and_into_its_branch(sample: Page) -> None:
    left = f"document.getElementById('entry-{_id_of(LEFT_BEHIND)}')"
    assert sample.js(left) is None
    sample.click(".row:nth-child(10)")
    sample.wait(f"{CURRENT}?.textContent.includes('{LEFT_BEHIND}')")
    assert "aborted" not in sample.js(f"{SHOWN}.at(-1).textContent")
    assert "Stopped before it was finished" in sample.js(f"{SHOWN}.at(-1).textContent")
    assert _id_of(LEFT_BEHIND) in sample.js("location.hash")


def test_the_tree_can_be_filtered(sample: Page) -> None:
    for value, count in (("user", 5), ("label", 1), ("all", 49), ("plain", 15)):
        sample.js(
            f"""(() => {{
                const filter = document.getElementById("filter");
                filter.value = "{value}";
                filter.dispatchEvent(new Event("change"));
            }})()"""
        )
        assert sample.js("document.getElementById('count').textContent") == f"{count} of 49"


def test_the_tree_obeys_the_arrow_keys(sample: Page) -> None:
    sample.js("document.getElementById('tree').focus()")
    sample.key("ArrowDown")
    sample.key("Enter")
    sample.wait(f"{CURRENT}?.textContent.includes('how heights are scaled')")


def test_search_finds_text_on_all_branches_and_marks_it(sample: Page) -> None:
    _search(sample, "FLIP the axis")
    assert sample.js(FOUND) == "3"
    assert sample.js("document.querySelectorAll('.row').length") == 3
    for step in range(1, 3):
        sample.key("Enter")
        sample.wait(f"{FOUND} === '{step}/3'")
    sample.wait(f"{CURRENT}?.textContent.includes('where the path is made')")
    assert sample.js("CSS.highlights.get('found').size") == 1
    sample.key("Escape")
    sample.wait(f"{FOUND} === ''")
    assert sample.js("document.getElementById('count').textContent") == "32 of 49"


def test_search_opens_the_folds_that_hide_a_match(sample: Page) -> None:
    folds = "[...document.querySelectorAll('details.more')]"
    folded = f"{folds}.find((fold) => fold.textContent.includes('helper_3'))"
    assert sample.js(f"{folded}.open") is False
    _search(sample, "in helper_3")
    sample.key("Enter")
    sample.wait(f"{FOUND} === '1/1'")
    assert sample.js(f"{folded}.open") is True


def test_search_that_finds_nothing_says_so(sample: Page) -> None:
    _search(sample, "no such words")
    assert sample.js(FOUND) == "none"


@pytest.mark.parametrize("words", ["Now go through all", LEFT_BEHIND])
def test_a_deep_link_opens_at_its_entry(page: Page, exported: Path, words: str) -> None:
    page.open(f"{exported.as_uri()}#entry-{_id_of(words)}")
    page.wait(f"{CURRENT}?.textContent.includes('{words}')")
    page.settle()
    top = page.js(f"{CURRENT}.getBoundingClientRect().top")
    assert 0 <= top < page.js("innerHeight")
    assert page.errors() == []


def test_going_back_leads_to_where_one_was(sample: Page) -> None:
    sample.key("n")
    first = sample.wait("location.hash")
    sample.key("n")
    sample.wait(f"location.hash !== '{first}'")
    sample.js("history.back()")
    sample.wait(f"location.hash === '{first}'")
    sample.wait(f"{CURRENT}?.textContent.includes('upside down')")


def test_keys_move_through_entries_prompts_and_branches(sample: Page) -> None:
    sample.key("n")
    sample.wait(f"{CURRENT}?.classList.contains('user')")
    sample.key("j")
    sample.wait(f"{CURRENT}?.classList.contains('assistant')")
    sample.key("k")
    sample.wait(f"{CURRENT}?.classList.contains('user')")
    sample.key("G")
    sample.wait(f"{CURRENT}?.textContent.includes('429')")
    sample.key("[")
    sample.wait("location.hash.startsWith('#leaf-')")
    assert "Do the second one" in sample.js(f"{CURRENT}.textContent")
    sample.key("?")
    assert sample.js("document.getElementById('keys').open") is True


def test_keys_open_and_close_what_is_folded(sample: Page) -> None:
    thinking = "document.querySelectorAll('#conversation .thinking[open]').length"
    output = "document.querySelectorAll('#conversation .call[open]').length"
    assert (sample.js(thinking), sample.js(output) > 10) == (0, True)
    sample.key("t")
    sample.key("o")
    assert (sample.js(thinking), sample.js(output)) == (3, 0)


def test_light_and_dark_follow_the_system_until_chosen(sample: Page, exported: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    sample.prefer(color_scheme="light")
    light = sample.js(ground)
    sample.prefer(color_scheme="dark")
    assert sample.js(ground) != light
    sample.key("d")
    assert sample.js(ground) == light
    sample.open(exported.as_uri())
    assert sample.js(ground) == light


def test_an_image_opens_large_and_closes(sample: Page) -> None:
    sample.js("document.querySelector('#conversation img').scrollIntoView({block: 'center'})")
    sample.settle()
    sample.click("#conversation img")
    sample.wait("document.getElementById('viewer').open")
    sample.click("#viewer")
    sample.wait("!document.getElementById('viewer').open")


def test_the_session_file_can_be_saved_from_the_page(sample: Page, tmp_path: Path) -> None:
    sample.save_into(tmp_path)
    sample.click("#save")
    # The browser creates the file first and writes it then.
    sample.until(lambda: len(_saved_lines(tmp_path)) == len(sample_lines()), "the file to be saved")
    assert list(map(json.loads, _saved_lines(tmp_path))) == sample_lines()


def _saved_lines(folder: Path) -> list[str]:
    """Return the complete lines of the file that was saved into a folder."""
    text = "".join(path.read_text() for path in folder.glob("*.jsonl"))
    return text.split("\n")[:-1]


def test_the_chart_tells_of_the_answer_under_the_mouse(sample: Page) -> None:
    area = sample.js("(({x, y, width, height}) => [x + width, y + height / 2])"
                     "(document.querySelector('.plot').getBoundingClientRect())")  # fmt: skip
    sample.ask("Input.dispatchMouseEvent", type="mouseMoved", x=area[0] - 2, y=area[1])
    told = sample.wait("document.querySelector('.tip').textContent")
    assert "429 Too many requests" in told
    assert "tokens · $0.5" in told


def test_the_page_can_be_read_without_script(page: Page, exported: Path) -> None:
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    page.open(exported.as_uri())
    assert "Without script this page" in page.js("document.querySelector('noscript').innerText")
    shown = page.js("document.getElementById('conversation').textContent")
    for words in ("Find out why and fix it", "What was wrong", "53 passed"):
        assert words in shown
    assert page.js("document.getElementById('conversation').offsetHeight") > 3000
    assert page.js("document.getElementById('find').checkVisibility()") is False


def test_nothing_is_wider_than_a_phone(chrome: Chrome, exported: Path) -> None:
    page = chrome.page(360, 740, phone=True)
    page.open(exported.as_uri())
    assert page.js("document.documentElement.scrollWidth") == 360
    assert page.js("document.getElementById('side').getBoundingClientRect().right") <= 0
    page.js("document.getElementById('menu').click()")
    page.wait("document.getElementById('side').getBoundingClientRect().left === 0")
    page.close()


def test_of_a_long_list_exists_what_can_be_seen_and_all_of_it_is_searched(
    page: Page, tmp_path: Path
) -> None:
    source = tmp_path / "long.jsonl"
    with source.open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in long_lines(2_000))
    session = open_session(source, CWD, no_warning, write=False)
    page.open(export_html(session, tmp_path / "long.html").as_uri())
    page.key("G")
    page.wait(f"{CURRENT} !== null")
    assert page.js("document.querySelectorAll('.row').length") < 100
    _search(page, "step-1801")
    assert page.js(FOUND) == "1"
    assert page.errors() == []
