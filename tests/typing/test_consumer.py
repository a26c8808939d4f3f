"""Users of the package are told the truth by its types, whatever checks them."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import ludolf

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GUIDE = (ROOT / "docs" / "client.md").read_text()
DECLARATIONS = ROOT / "docs" / "schema" / "ludolf.d.ts"
# The mistake that must be found, so that a checker that looks at nothing does not pass.
MISTAKE = "\n\nwrong: int = create_session\n"


def _is_installed() -> bool:
    try:
        distribution("ludolf")
    except PackageNotFoundError:
        return False
    return True


installed = pytest.mark.skipif(not _is_installed(), reason="ludolf is not installed")


def _run(*command: str, cwd: Path) -> tuple[int, str]:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _project(folder: Path, *, wrong: bool = False) -> Path:
    """What users write, and what the guide tells them to write."""
    text = (HERE / "consumer.py").read_text() + (MISTAKE if wrong else "")
    (folder / "consumer.py").write_text(text)
    for name, example in re.findall(r"```python file=(\S+)\n(.*?)```", GUIDE, re.DOTALL):
        if name != "order.py":  # an extension may do without types
            (folder / name).write_text(example)
    return folder


def _mypy(folder: Path) -> tuple[int, str]:
    cache = str(ROOT / ".mypy_cache" / "consumer")
    strict = ("--strict", "--config-file=", f"--cache-dir={cache}")
    return _run(sys.executable, "-m", "mypy", *strict, ".", cwd=folder)


def test_the_package_says_that_it_is_typed() -> None:
    assert Path(ludolf.__file__).with_name("py.typed").exists()


@installed
@pytest.mark.timeout(180)
def test_mypy_accepts_what_users_write(tmp_path: Path) -> None:
    code, text = _mypy(_project(tmp_path))
    assert code == 0, text
    assert re.fullmatch(r"Success: no issues found in \d\d? source files\n", text)


@installed
@pytest.mark.timeout(180)
def test_mypy_finds_a_mistake(tmp_path: Path) -> None:
    code, text = _mypy(_project(tmp_path, wrong=True))
    assert code == 1
    assert "Incompatible types in assignment" in text
    assert "Found 1 error" in text


@installed
@pytest.mark.skipif(shutil.which("pyright") is None, reason="there is no pyright")
@pytest.mark.timeout(180)
def test_pyright_accepts_what_users_write(tmp_path: Path) -> None:
    _project(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    python = ("--pythonpath", sys.executable)
    code, text = _run("pyright", *python, cwd=tmp_path)
    assert code == 0, text


@pytest.mark.skipif(shutil.which("tsc") is None, reason="there is no TypeScript")
@pytest.mark.timeout(60)
def test_typescript_accepts_what_users_write(tmp_path: Path) -> None:
    shutil.copy(DECLARATIONS, tmp_path)
    shutil.copy(HERE / "consumer.ts", tmp_path)
    strict = ("--strict", "--noEmit", "--target", "es2022", "--moduleResolution", "bundler")
    code, text = _run("tsc", *strict, "--module", "es2022", "consumer.ts", cwd=tmp_path)
    assert code == 0, text
