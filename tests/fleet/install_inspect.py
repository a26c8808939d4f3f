"""Installs Inspect and Harbor: `python -m tests.fleet.install_inspect FOLDER`.

Each has an environment below the folder, with Ludolf from this repository. Needs access to PyPI.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Inspect's bridge for programs in the sandbox needs the library of the API that they use.
ENVIRONMENTS = {
    "inspect": ("inspect-ai>=0.3.285,<0.4", "anthropic"),
    "harbor": ("harbor>=0.25,<0.26",),
}


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    for name, packages in ENVIRONMENTS.items():
        _install(folder / name, packages)


def _install(place: Path, packages: tuple[str, ...]) -> None:
    stamp, wanted = place / "installed.txt", "\n".join(packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    sys.stderr.write(f"Installing {packages[0]} into {place} ...\n")
    _run(sys.executable, "-m", "venv", "--clear", str(place))
    pip = (str(place / "bin" / "python"), "-m", "pip", "install", "--quiet")
    _run(*pip, "--disable-pip-version-check", *packages, "--editable", str(ROOT))
    stamp.write_text(wanted)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
