"""Packages of others behave as in the real pi: commands, tools, notices, dialogs and errors.

Runs only where they are installed: `make test-packages`. The results are written to `results.json`
in that folder, from which `python -m tests.packages.page` makes the table of the documentation.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludolf.base import dumps, loads
from tests.packages import versions
from tests.packages.install import agent_folder
from tests.packages.trial import Trial, WillingModel, link_packages, try_package
from tests.packages.verdict import differences
from tests.process.harness import RPC, Lab
from tests.script_host import NODE

FOLDER = Path(os.environ.get("LUDOLF_TEST_PACKAGES", ""))
MODULES = FOLDER / "pi/node_modules/@earendil-works/pi-coding-agent"
pytestmark = [
    pytest.mark.skipif(Path() == FOLDER, reason="LUDOLF_TEST_PACKAGES names no folder"),
    pytest.mark.timeout(600),
]
_NOWHERE = "http://127.0.0.1:9"
_OFFLINE = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NOWHERE),
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
    "NODE_USE_ENV_PROXY": "1",
    "PI_OFFLINE": "1",
    "PI_SKIP_VERSION_CHECK": "1",
}


@pytest.fixture
def labs(tmp_path: Path) -> Iterator[dict[str, Lab]]:
    """One lab for each program, with the same paths below it."""
    with WillingModel() as first, WillingModel() as second:
        yield {"pi": Lab(tmp_path / "1", first), "ludolf": Lab(tmp_path / "2", second)}


def programs() -> dict[str, tuple[str, ...]]:
    assert NODE is not None, "needs Node 22.12 or newer"
    return {"pi": (*NODE.words, str(MODULES / "dist/cli.js"), "--mode", "rpc"), "ludolf": RPC}


def environment(program: str) -> dict[str, str]:
    assert NODE is not None
    folders = [str(Path(NODE.words[0]).parent), os.environ["PATH"]]
    if program == "ludolf":
        return {**_OFFLINE, "PATH": os.pathsep.join(folders), "PI_PACKAGE_DIR": str(MODULES)}
    # Packages that start pi itself find it here; in Ludolf they find Ludolf.
    own = str(FOLDER / "pi/node_modules/.bin")
    return {**_OFFLINE, "PATH": os.pathsep.join((own, *folders))}


@pytest.mark.parametrize("name", versions.PACKAGES)
async def test_a_package_behaves_as_in_pi(labs: dict[str, Lab], name: str) -> None:
    agent = agent_folder(FOLDER, name)
    if not (agent / "installed").is_file():
        pytest.skip("cannot be installed here")
    trials: dict[str, Trial] = {}
    for program, words in programs().items():
        link_packages(labs[program], agent)
        source = f"npm:{name}@{versions.PACKAGES[name]}"
        environ = environment(program)
        trials[program] = await try_package(labs[program], words, environ, source)
    store(name, trials)
    assert differences(trials["pi"], trials["ludolf"]) == []


def store(name: str, trials: dict[str, Trial]) -> None:
    path = FOLDER / "results.json"
    results = loads(path.read_bytes()) if path.is_file() else {}
    path.write_bytes(dumps({**results, name: trials}))
