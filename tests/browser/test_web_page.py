"""The page of the server in a real browser, as its users use it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chrome import Chrome, Page
from tests.browser.web_page import (
    IDLE,
    LIVE,
    NUMBERS,
    QUESTIONS,
    TALK,
    UNDERWAY,
    PageServer,
    page_server,
    send,
)

ALT, SHIFT = 1, 8
TOAST = "document.getElementById('toast').textContent"
MESSAGE = "document.getElementById('message').value"
CHIPS = "[...document.querySelectorAll('#queue li span')].map((one) => one.textContent)"
CONTROLS = ("button", "textbox", "searchbox", "combobox", "checkbox", "tab", "link", "meter")

# Texts of the page's own parts that are too faint on their background.
FAINT = """
(() => {
    const parse = (text) => (text.match(/^rgba?\\(([^)]+)/)?.[1] ?? "").split(",").map(Number);
    const light = (rgb) => {
        const [r, g, b] = rgb.map((one) => one / 255)
            .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const found = parse(getComputedStyle(at).backgroundColor);
            if (found.length === 3) return found;
        }
        return parse(getComputedStyle(document.body).backgroundColor);
    };
    const own = [...document.querySelectorAll(".bar *, .side *, .dock *, #tail *")];
    return own.filter((one) => one.checkVisibility() && !one.closest("svg") &&
        [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
    ).filter((one) => {
        const pair = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort();
        return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05) < 4.5;
    }).map((one) => `${one.className || one.id}: ${one.textContent.slice(0, 40)}`);
})()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with page_server(tmp_path_factory.mktemp("web")) as running:
        yield running


@pytest.fixture
def chat(page: Page, server: PageServer) -> Iterator[Page]:
    """The page with a new session; no test may violate its policy."""
    server.new(page)
    yield page
    assert page.errors() == []
    assert [one for one in page.requests() if server.stage.token in one] == []


def test_a_first_prompt_is_answered_and_rendered(page: Page, server: PageServer) -> None:
    page.open(server.entry)
    page.wait(LIVE)
    send(page, "hello")
    page.wait(f"{IDLE} && {TALK}.includes('Hello from the model')")
    assert page.js("document.querySelector('#conversation strong').textContent") == "the model"
    page.wait("document.getElementById('underway').children.length === 0")
    assert page.js("document.getElementById('heading').textContent") == "hello"
    page.wait("document.querySelector('.one[aria-current]')?.textContent.includes('hello')")
    assert page.js("document.getElementById('status').textContent") == "Done"
    assert page.errors() == []


def test_the_token_leaves_the_address_at_once_and_stays_in_this_tab(
    page: Page, server: PageServer
) -> None:
    page.open(server.entry)
    page.wait(LIVE)
    token = server.stage.token
    assert page.js("location.href") == f"{server.stage.url}/"
    assert page.js("JSON.stringify(localStorage) + document.cookie + document.referrer") == "{}"
    assert page.js("sessionStorage.getItem('ludolf-token')") == token
    sent = page.told("Network.requestWillBeSent")
    assert not [each for each in sent if token in each["request"]["url"]]
    assert not [each for each in sent if "Referer" in each["request"]["headers"]]
    page.open("about:blank")
    page.open(f"{server.stage.url}/")
    page.wait(LIVE)
    page.js("sessionStorage.clear()")
    page.open(f"{server.stage.url}/?again")
    page.wait("!document.getElementById('enter').hidden")
    page.type("x" * 43)
    page.key("Enter")
    page.wait("document.getElementById('enter-why').textContent.includes('does not accept')")
    page.type(token)
    page.key("Enter")
    page.wait(f"{LIVE} && document.getElementById('enter').hidden")
    page.js(f"void (location.hash = '#token={token}')")
    page.wait("location.hash === ''")


def test_messages_steer_wait_in_the_queue_and_can_be_removed(
    chat: Page, server: PageServer
) -> None:
    send(chat, "stay")
    chat.wait(f"{UNDERWAY}.includes('I stay')")
    send(chat, "steered first")
    chat.wait(f"{CHIPS}.length === 1")
    send(chat, "then this", modifiers=ALT)
    send(chat, "and that", modifiers=ALT)
    chat.wait(f"{CHIPS}.length === 3")
    chat.js("document.querySelectorAll('#queue .drop')[1].click()")
    chat.wait(f"{CHIPS}.join() === 'steered first,and that'")
    chat.js("document.getElementById('message').focus()")
    chat.key("Escape")
    chat.wait(f"{IDLE} && {CHIPS}.length === 0")
    assert chat.js(MESSAGE) == "steered first\n\nand that"
    chat.key("Enter")
    chat.wait(f"{TALK}.includes('I was steered.')")


def test_an_approval_is_answered_here_and_gone_there(
    chat: Page, chrome: Chrome, server: PageServer
) -> None:
    other = chrome.page()
    other.open(server.entry)
    other.wait(LIVE)
    other.js(f"void (location.hash = {chat.js('location.hash')!r})")
    other.wait("!document.getElementById('model').disabled")
    chat.wait("document.getElementById('others').textContent.includes('web-')")
    other.js("document.getElementById('message').focus()")
    other.type("a draft")
    send(chat, "make it")
    chat.wait(f"{QUESTIONS} === 1")
    other.wait(f"{QUESTIONS} === 1")
    assert other.js("document.activeElement.id") == "message"
    other.js("document.activeElement.blur()")
    assert "echo made" in other.js("document.querySelector('.question pre').textContent")
    other.wait("document.title.startsWith('(1) ')")
    other.key("1")
    chat.wait(f"{QUESTIONS} === 0 && {TALK}.includes('It is made.')")
    assert chat.js(TOAST).startswith("Answered by browser")
    other.wait(f"{QUESTIONS} === 0 && {TALK}.includes('It is made.')")
    assert other.js(TOAST) == ""
    assert other.errors() == []
    other.close()


def test_a_cut_connection_loses_and_repeats_nothing(chat: Page, server: PageServer) -> None:
    send(chat, "count")
    chat.wait(f"{UNDERWAY}.includes(' 20 ')")
    chat.type("a draft")
    server.cut()
    chat.wait(f"{LIVE} && {UNDERWAY}.trim().endsWith(' 200')")
    text = chat.js("document.querySelector('#underway .md').textContent")
    assert text == NUMBERS
    assert chat.js(MESSAGE) == "a draft"
    chat.key("Escape")
    chat.wait(f"{IDLE} && {TALK}.includes(' 200')")
    chat.wait("document.getElementById('underway').children.length === 0")


def test_the_tree_moves_and_forks_the_session(chat: Page, server: PageServer) -> None:
    send(chat, "hello")
    chat.wait(f"{IDLE} && {TALK}.includes('Hello from')")
    send(chat, "steered away")
    chat.wait(f"{IDLE} && {TALK}.includes('I was steered')")
    chat.js("document.getElementById('tab-tree').click()")
    row = "[...document.querySelectorAll('.row')].find((one) => one.textContent.includes('hello'))"
    chat.wait(f"{row} !== undefined")
    chat.js(f"{row}.click()")
    before = chat.js("location.hash.split('&')[0]")
    chat.js("document.getElementById('label').value = 'a good place'")
    chat.click("#summarise")
    chat.js("document.getElementById('move').click()")
    chat.wait(f"!{TALK}.includes('I was steered') && {MESSAGE} === 'hello'")
    chat.wait(f"{TALK}.includes('Summary of the branch left behind')")
    chat.wait("document.getElementById('tree').innerText.includes('a good place')")
    assert chat.js("document.getElementById('label').value") == ""
    chat.js("document.getElementById('message').select()")
    send(chat, "steered again")
    chat.wait(f"{IDLE} && {TALK}.includes('steered again')")
    assert "Hello from" not in chat.js(TALK)
    row = row.replace("hello", "steered again")
    chat.js(f"{row}.click()")
    chat.js("document.getElementById('fork').click()")
    chat.wait(f"location.hash.split('&')[0] !== '{before}' && {MESSAGE} === 'steered again'")
    chat.wait(f"!{TALK}.includes('steered again')")
    send(chat, "")
    chat.wait(f"{IDLE} && {TALK}.includes('steered again')")


def test_commands_of_the_user_run_in_the_page_and_files_are_suggested(
    chat: Page, server: PageServer
) -> None:
    (server.folder / "work" / "tides.txt").write_text("high\n")
    chat.js("document.getElementById('message').focus()")
    chat.type("!cat @tid")
    chat.wait("document.getElementById('complete').innerText.includes('tides.txt')")
    chat.key("Tab")
    assert chat.js(MESSAGE) == "!cat @tides.txt "
    chat.js("document.getElementById('message').select()")
    send(chat, "!sed s/h/H/ tides.txt")
    chat.wait(f"{IDLE} && {TALK}.includes('High')")
    assert chat.js("document.getElementById('underway').children.length") == 0
    send(chat, "!!echo out; sleep 60")
    chat.wait(f"!{IDLE} && {UNDERWAY}.includes('out')")
    chat.key("Escape")
    chat.wait(f"{IDLE} && {UNDERWAY} === ''")
    chat.wait(f"{TALK}.includes('sleep 60')")
    send(chat, "/limits turns=3 cost=0.5")
    chat.wait("document.getElementById('limits').textContent === 'limits: turns=3 cost=0.5'")
    send(chat, "/limits")
    chat.wait("document.getElementById('limits').textContent === ''")


def test_the_model_is_changed_in_the_head_and_entries_are_counted_away_from_the_end(
    chat: Page, server: PageServer
) -> None:
    session = chat.js("location.hash").removeprefix("#session-")
    send(chat, "count")
    chat.wait(f"{UNDERWAY}.includes(' 200')")
    chat.resize(1000, 300)
    chat.js("scrollTo({ top: 0 })")
    chat.wait("scrollY === 0")
    server.post(type="abort", session=session)
    chat.wait(f"{IDLE} && document.getElementById('live').innerText.includes('1 new')")
    chat.click("#live")
    chat.wait("!document.getElementById('live').innerText.includes('new')")
    choose = """(() => {
        const list = document.getElementById("%s");
        list.selectedIndex = [...list.options].findIndex((one) => !one.selected);
        list.dispatchEvent(new Event("change"));
        return list.value;
    })()"""

    def state() -> dict[str, Any]:
        return server.post(type="get_state", session=session)

    level = chat.js(choose % "level")
    chat.until(lambda: bool(state()["thinkingLevel"] == level), level)
    model = chat.js(choose % "model")
    assert model.startswith("mistral/")
    chat.until(lambda: bool(state()["model"]["id"] == model.removeprefix("mistral/")), model)


def test_an_image_is_shrunk_shown_removed_and_sent(chat: Page, server: PageServer) -> None:
    paste = """(async () => {
        const canvas = document.createElement("canvas");
        canvas.width = 2600; canvas.height = 130;
        canvas.getContext("2d").fillRect(0, 0, 99, 99);
        const blob = await new Promise((done) => canvas.toBlob(done));
        const files = new DataTransfer();
        files.items.add(new File([blob], "wide.png", { type: "image/png" }));
        files.items.add(new File([new Uint8Array(17 << 20)], "big.png", { type: "image/png" }));
        const event = new ClipboardEvent("paste", { clipboardData: files, bubbles: true });
        document.getElementById("message").dispatchEvent(event);
    })()"""
    shown = "document.querySelectorAll('#images img').length"
    chat.js(paste)
    chat.wait(f"{shown} === 1")
    assert chat.js(TOAST) == "big.png has 17.0 MiB; at most 16.0 MiB can be sent."
    chat.js("document.querySelector('#images .drop').click()")
    assert chat.js(shown) == 0
    chat.js(
        paste.replace("ClipboardEvent", "DragEvent")
        .replace('"paste"', '"drop"')
        .replace("clipboardData", "dataTransfer")
    )
    chat.wait(f"{shown} === 1")
    chat.js("document.querySelector('#images .drop').click()")
    chosen = """document.getElementById("files").files = files.files;
        document.getElementById("files").dispatchEvent(new Event("change"));"""
    chat.js(paste[: paste.index("const event")] + chosen + "})()")
    chat.wait("document.querySelector('#images img')?.naturalWidth === 2000")
    send(chat, "picture")
    chat.wait(f"{TALK}.includes('I see it.')")
    image = "document.querySelector('#conversation .user img')"
    chat.wait(f"{image}?.naturalWidth === 2000 && {image}.naturalHeight === 100")
    assert chat.js(shown) == 0


DEPLOY = """
def extension(api):
    def places(prefix):
        return [one for one in ("staging", "production") if one.startswith(prefix)]

    api.command("deploy", lambda args, ctx: ctx.ui.notify(f"To {args}"), completions=places)
"""


def test_arguments_of_extension_commands_are_suggested(page: Page, server: PageServer) -> None:
    path = server.folder / "agent" / "extensions" / "deploy.py"
    path.parent.mkdir(parents=True)
    path.write_text(DEPLOY)
    server.new(page)
    path.unlink()
    page.js("document.getElementById('message').focus()")
    page.type("/deploy st")
    page.wait("document.getElementById('complete').innerText.includes('staging')")
    page.key("Enter")
    assert page.js(MESSAGE) == "/deploy staging"


def test_the_keyboard_is_enough(chat: Page, server: PageServer) -> None:
    chat.js("document.activeElement.blur()")
    chat.key("?")
    chat.wait("document.getElementById('keys').open")
    chat.js("document.getElementById('keys').close()")
    chat.wait("document.activeElement === document.body")
    chat.key("i")
    chat.wait("document.activeElement.id === 'message'")
    chat.type("/comp")
    chat.wait("!document.getElementById('complete').hidden")
    chat.key("Enter")
    assert chat.js(MESSAGE) == "/compact "
    chat.js("document.getElementById('message').select()")
    chat.type("make it")
    chat.key("Enter")
    chat.wait(f"{QUESTIONS} === 1 && document.activeElement.matches('.question')")
    chat.key("Escape")
    chat.wait(f"{IDLE} && {QUESTIONS} === 0")
    chat.js("document.activeElement.blur()")
    chat.key("s")
    chat.wait("document.activeElement.id === 'seek'")
    chat.key("ArrowDown")
    chat.wait("document.activeElement.matches('.one')")


def test_every_control_has_a_name_and_parts_are_landmarks(chat: Page) -> None:
    chat.wait(f"{QUESTIONS} === 0")
    nodes = chat.ask("Accessibility.getFullAXTree")["nodes"]
    shown = [node for node in nodes if not node["ignored"]]

    def roles(name: str) -> list[Any]:
        found = (node for node in shown if node["role"]["value"] == name)
        return [node.get("name", {}).get("value", "") for node in found]

    nameless = [role for role in CONTROLS if not all(roles(role))]
    assert nameless == []
    assert roles("log") == ["Conversation"]
    assert "Message" in roles("textbox") and "Model" in roles("combobox")
    for landmark in ("main", "banner", "complementary", "search", "region"):
        assert roles(landmark), landmark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_and_fits_a_phone(chat: Page, scheme: str) -> None:
    chat.prefer(color_scheme=scheme)
    chat.resize(390, 844, phone=True)
    send(chat, "hello")
    chat.wait(f"{IDLE} && {TALK}.includes('Hello from')")
    chat.settle()
    assert chat.js("document.documentElement.scrollWidth <= innerWidth")
    composer = "document.getElementById('composer').getBoundingClientRect()"
    assert chat.js(f"{composer}.bottom <= innerHeight && {composer}.right <= innerWidth")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert chat.js(colour) == ("rgb(23, 22, 20)" if scheme == "dark" else "rgb(250, 249, 246)")
    chat.click("#menu")
    chat.wait("document.getElementById('side').getBoundingClientRect().left === 0")
    chat.click("#tab-tree")
    chat.wait("document.querySelectorAll('.row').length > 1")
    assert chat.js(FAINT) == []
    # A screen of 1280 pixels at 400 %, without motion.
    chat.prefer(color_scheme=scheme, motion="reduce")
    chat.resize(320, 256)
    chat.key("Escape")
    chat.settle()
    assert chat.js("document.documentElement.scrollWidth <= innerWidth")
    assert chat.js("document.getAnimations().length") == 0


def test_sessions_are_found_started_in_a_folder_renamed_and_keep_their_drafts(
    chat: Page, server: PageServer
) -> None:
    first = chat.js("location.hash")
    listed = "document.getElementById('sessions').innerText"
    chat.js("document.getElementById('message').focus()")
    chat.type("one")
    chat.key("Enter", modifiers=SHIFT)
    chat.type("draft")
    chat.js("document.getElementById('rename').click()")
    chat.wait("document.getElementById('naming').open")
    chat.js("document.getElementById('name').value = 'Tide chart'")
    chat.js("document.getElementById('naming-form').requestSubmit()")
    chat.wait(f"{listed}.includes('Tide chart')")
    (server.folder / "work" / "below").mkdir()
    chat.js("document.getElementById('new').click()")
    chat.js("document.getElementById('folder').value = '/no/such/folder'")
    chat.js("document.getElementById('new-form').requestSubmit()")
    chat.wait(f"{TOAST}.includes('/no/such/folder')")
    folder = str(server.folder / "work" / "below")
    chat.js(f"document.getElementById('folder').value = {folder!r}")
    chat.js("document.getElementById('new-form').requestSubmit()")
    chat.wait(f"location.hash !== '{first}' && {listed}.includes('work/below')")
    assert chat.js(MESSAGE) == ""
    chat.js("document.getElementById('seek').value = 'tide'")
    chat.js("document.getElementById('seek').dispatchEvent(new Event('input'))")
    chat.wait("document.querySelectorAll('.one').length === 1")
    chat.js("document.querySelector('.one').click()")
    chat.wait(f"location.hash === '{first}' && {MESSAGE} === 'one\\ndraft'")
    chat.wait("!document.getElementById('level').disabled")
    chat.wait("document.getElementById('cost').textContent === '$0.00'")


def test_a_long_name_does_not_push_the_head_over_the_side_bar(chat: Page) -> None:
    send(chat, "hello, and a name that is much longer than the head of the page has room for " * 3)
    chat.wait(f"{IDLE} && {TALK}.includes('Hello from')")
    for width in (1400, 1200, 1000):
        chat.resize(width, 800)
        chat.settle()
        box = "document.getElementById('{}').getBoundingClientRect()"
        assert chat.js(f"{box.format('bar')}.bottom <= {box.format('side')}.top"), width


def test_a_restarted_server_says_that_the_run_was_interrupted(page: Page, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"match": "stay", "text": "I stay", "hang": true}]')
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LUDOLF_SCRIPT": str(script)}
    words = [sys.executable, "-m", "ludolf", "web", "--model", "ludolf/scripted", "--port"]

    def start(port: str) -> tuple["subprocess.Popen[str]", str]:
        server = subprocess.Popen(
            [*words, port],
            cwd=tmp_path,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert server.stdout is not None
        return server, server.stdout.readline().strip()

    first, url = start("0")
    page.open(url)
    page.wait(LIVE)
    send(page, "stay")
    page.wait(f"{UNDERWAY}.includes('I stay')")
    page.type("not lost")
    first.kill()
    errors = first.communicate()[1]
    page.wait("!document.getElementById('banner').hidden")
    second, again = start(url.partition("#")[0].rstrip("/").rpartition(":")[2])
    try:
        assert again == url
        page.wait("document.getElementById('banner').textContent.includes('interrupted')")
        assert page.js(MESSAGE) == "not lost"
        page.wait(f"{IDLE} && {TALK}.includes('stay')")
    finally:
        second.send_signal(signal.SIGINT)
        errors += second.communicate(timeout=30)[1]
    assert second.returncode == 0
    assert url.partition("token=")[2] not in errors
