"""One Chromium for all tests here; where there is none, they say so."""

from collections.abc import Iterator

import pytest

from tests.browser.chrome import Chrome, NoChromium, Page

_MARKS = ("timeout", "xdist_group")


def pytest_configure(config: pytest.Config) -> None:
    # Known to plugins that may be switched off.
    for name in _MARKS:
        config.addinivalue_line("markers", f"{name}: of a plugin")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one worker, since a browser is heavy; with time for a machine that is busy."""
    for item in items:
        if "tests/browser" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("browser"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(120))


@pytest.fixture(scope="session")
def chrome() -> Iterator[Chrome]:
    try:
        browser = Chrome()
        browser.__enter__()
    except NoChromium as reason:
        pytest.skip(str(reason))
    try:
        yield browser
    finally:
        browser.__exit__(None, None, None)


@pytest.fixture(scope="session")
def tab(chrome: Chrome) -> Page:
    return chrome.page()


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """The same tab for all tests, which is quick; each finds it as if it were new."""
    yield tab
    tab.reset()
