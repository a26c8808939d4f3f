"""The wheel in a fresh virtual environment: what the program names is there."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from ludolf.base import dumps, loads
from tests.process.harness import PROGRAM, SOURCE, WAIT_SECONDS, Lab

ROOT = SOURCE.parent
PAGES = sorted(path.name for path in ROOT.glob("docs/*.md"))
_FOLDER = re.compile(r"documentation is in (.+?)\. Read it only")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the built wheel; it borrows the dependencies."""
    folder = tmp_path_factory.mktemp("install")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    build = "import sys, uv_build; uv_build.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        check=True,
    )
    venv.create(folder / "venv", symlinks=True)
    (wheel,) = folder.glob("*.whl")
    place = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder / "venv")}))
    with ZipFile(wheel) as file:
        file.extractall(place)
    # A path in a .pth file is searched, but the .pth files in it are not: no editable install.
    (place / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv" / "bin" / "python"


def _docs_folder(lab: Lab, *program: str, **env: str) -> Path | None:
    """Return the folder that the system prompt names."""
    done = subprocess.run(
        [*program, "--mode", "rpc", "--rpc-dialect", "omp"],
        cwd=lab.work,
        env={**lab.env, "PYTHONPATH": "", **env},
        input=dumps({"type": "get_state"}) + b"\n",
        capture_output=True,
        timeout=2 * WAIT_SECONDS,
        check=True,
    )
    replies = [loads(line) for line in done.stdout.splitlines()]
    (state,) = (one["data"] for one in replies if one.get("command") == "get_state")
    named = _FOLDER.search("\n".join(state["systemPrompt"]))
    return Path(named[1]) if named else None


def test_the_wheel_has_the_pages_that_the_system_prompt_names(lab: Lab, installed: Path) -> None:
    folder = _docs_folder(lab, str(installed), "-m", "ludolf")

    assert folder is not None
    assert installed.parents[1] in folder.parents
    assert sorted(os.listdir(folder)) == PAGES
    assert not any(page.is_symlink() for page in folder.iterdir())
    assert (folder / "sdk.md").read_bytes() == (ROOT / "docs/sdk.md").read_bytes()


def test_an_editable_install_names_the_pages_of_the_repository(lab: Lab) -> None:
    folder = _docs_folder(lab, *PROGRAM, PYTHONPATH=str(SOURCE))

    assert folder is not None
    pages = {page.name: page.resolve() for page in folder.iterdir()}
    # A new page needs a link: ln -s ../../../docs/PAGE.md src/ludolf/docs/PAGE.md
    assert pages == {name: ROOT / "docs" / name for name in PAGES}


def test_without_the_folder_the_system_prompt_does_not_name_it(lab: Lab) -> None:
    folder = _docs_folder(lab, *PROGRAM, PYTHONPATH=str(SOURCE), LUDOLF_PACKAGE_DIR=str(lab.root))

    assert folder is None
