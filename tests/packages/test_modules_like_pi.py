"""Our modules give the same results as the packages of pi, on many inputs.

Runs only where they are installed: `make test-packages`.
"""

import os
import subprocess
from pathlib import Path

import pytest

from ludolf.base import loads
from tests.script_host import NODE

FOLDER = os.environ.get("LUDOLF_TEST_PACKAGES", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="LUDOLF_TEST_PACKAGES names no folder")
ROUNDS = 5000


def test_text_schemas_and_names_are_the_same() -> None:
    assert NODE is not None, "needs Node 22.12 or newer"
    script = Path(__file__).with_name("compare.mjs")
    done = subprocess.run(
        [*NODE.words, str(script), f"{FOLDER}/pi", str(ROUNDS)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    report = loads(done.stdout)
    wrong = {name: one["examples"] for name, one in report.items() if one["differences"]}
    assert wrong == {}
    assert min(one["count"] for one in report.values()) >= 5
