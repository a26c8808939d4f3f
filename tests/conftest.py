"""The same ground for every test: no keys, settings or proxies of whoever runs them."""

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from ludolf.config.auth.keys import KEY_VARIABLES, OTHER_SECRETS

# The same examples for everyone; look for new ones with --hypothesis-profile=default.
settings.register_profile("ludolf", deadline=None, derandomize=True)
settings.load_profile("ludolf")

# In the background, or under nohup, signals are ignored, and every child inherits that.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

_SECRETS = {name for names in KEY_VARIABLES.values() for name in names} | OTHER_SECRETS

# Tests that share something costly (a browser, the parsed package) or measure the machine.
_ONE_WORKER = (
    "tests/browser/",
    "tests/house/",
    "tests/process/test_terminal",
    "tests/unit/test_bench_growth.py",
)


def pytest_configure(config: pytest.Config) -> None:
    text = "exec: execute the program, since its start is a part of the subject"
    config.addinivalue_line("markers", text)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Group tests by `_ONE_WORKER`.

    The marks `xdist_group` of xdist 3.8 have no effect with pytest 9.2 (pytest-xdist#1386).
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Grouped(LoadScopeScheduling):  # type: ignore[misc]  # has no types
        def _split_scope(self, nodeid: str) -> str:
            return next((group for group in _ONE_WORKER if nodeid.startswith(group)), nodeid)

    return Grouped(config, log)


def pytest_collection_finish() -> None:
    # All modules and items live to the end: no collection of garbage has to look at them again.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    before = dict(os.environ)
    for name in before:
        if name.startswith(("LUDOLF_", "PI_", "AWS_")) or name.lower().endswith("_proxy"):
            del os.environ[name]
    for name in _SECRETS:
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="ludolf-home-") as home:
        os.environ["HOME"] = home
        yield
    os.environ.clear()
    os.environ.update(before)
