"""One Chromium for all tests here; where there is none, they say so."""

from collections.abc import Iterator

import pytest

from tests.browser.chrome import Chrome, NoChromium, Page


def pytest_configure(config: pytest.Config) -> None:
    # Known to a plugin that may be switched off.
    config.addinivalue_line("markers", "timeout: of a plugin")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give them time for a machine that is busy."""
    for item in items:
        is_ours = "tests/browser" in item.path.as_posix()
        if is_ours and item.get_closest_marker("timeout") is None:
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
