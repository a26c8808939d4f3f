"""Installs Ray, Inspect and Harbor: `python -m tests.fleet.install FOLDER`.

Each has an environment below the folder, with Ludolf from this repository. Needs access to PyPI.
Harbor needs Python 3.12 or newer; if it cannot be installed, its tests are skipped.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.newer_python import newer_python

ROOT = Path(__file__).parents[2]
RAY = ("ray==2.60.0",)
# Inspect's bridge for programs in the sandbox needs the library of the API that they use.
INSPECT = ("inspect-ai>=0.3.285,<0.4", "anthropic")
HARBOR = ("harbor>=0.25,<0.26",)


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    for name, packages in (("ray", RAY), ("inspect", INSPECT)):
        problem = _install(folder / name, packages, sys.executable)
        if problem:
            sys.exit(problem)
    python = newer_python()
    problem = _install(folder / "harbor", HARBOR, python) if python else "no Python 3.12 or newer"
    if problem:
        sys.stderr.write(f"Harbor is left out: {problem}\n")


def _install(place: Path, packages: tuple[str, ...], python: str) -> str | None:
    """Return what failed; None if the packages are installed."""
    stamp, wanted = place / "installed.txt", "\n".join((*packages, *_own_dependencies()))
    if stamp.exists() and stamp.read_text() == wanted:
        return None
    sys.stderr.write(f"Installing {packages[0]} into {place} ...\n")
    pip = (str(place / "bin" / "python"), "-m", "pip", "install", "--quiet")
    problem = _run(python, "-m", "venv", "--clear", str(place)) or _run(
        *pip, "--disable-pip-version-check", *packages, "--editable", str(ROOT)
    )
    if problem is None:
        stamp.write_text(wanted)
    return problem


def _own_dependencies() -> list[str]:
    """Return what Ludolf needs now: an environment that was made before may lack some of it."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(about["project"]["dependencies"])


def _run(*words: str) -> str | None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}"


if __name__ == "__main__":
    main()
