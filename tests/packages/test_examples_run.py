"""The example extensions of pi behave as in the real pi. Runs only with `make test-packages`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.test_packages_run import FOLDER, MODULES, environment, programs, store
from tests.packages.trial import Trial, WillingModel, try_package
from tests.packages.verdict import differences
from tests.process.harness import Lab

EXAMPLES = MODULES / "examples/extensions"
# They need packages of npm that are not installed with pi.
NEED_PACKAGES = ("gondolin", "with-deps", "sandbox", "custom-provider-anthropic")
pytestmark = [
    pytest.mark.skipif(Path() == FOLDER, reason="LUDOLF_TEST_PACKAGES names no folder"),
    pytest.mark.timeout(600),
]


def _examples() -> Iterator[str]:
    for path in sorted(EXAMPLES.iterdir()) if EXAMPLES.is_dir() else ():
        if path.suffix == ".ts" or (path / "index.ts").is_file():
            yield path.name


@pytest.mark.parametrize("name", list(_examples()))
async def test_an_example_behaves_as_in_pi(tmp_path: Path, name: str) -> None:
    if name.removesuffix(".ts") in NEED_PACKAGES:
        pytest.skip("needs packages of npm")
    trials: dict[str, Trial] = {}
    for program, words in programs().items():
        with WillingModel() as model:
            lab = Lab(tmp_path / program[0], model)
            path = str(EXAMPLES / name)
            (lab.agent / "ludolf/node/node_modules").mkdir(parents=True)
            (lab.agent / "ludolf/node/node_modules/jiti").symlink_to(
                FOLDER / "pi/node_modules/jiti"
            )
            trials[program] = await try_package(lab, words, environment(program), path)
    store(f"examples/{name}", trials)
    assert differences(trials["pi"], trials["ludolf"]) == []
