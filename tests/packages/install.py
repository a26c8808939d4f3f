"""Installs pi and packages of others into a folder: `python -m tests.packages.install FOLDER`.

Needs npm and its registry. No script of a package is run. Each package gets an agent folder of its
own, filled by `ludolf install`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.packages import versions


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    _install_pi(folder / "pi")
    for name, version in versions.PACKAGES.items():
        _install_package(agent_folder(folder, name), f"npm:{name}@{version}")


def agent_folder(folder: Path, name: str) -> Path:
    return folder / name.replace("/", "+") / "agent"


def _install_pi(folder: Path) -> None:
    stamp = folder / "installed"
    wanted = f"{versions.PI} {versions.JITI}"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    sys.stderr.write(f"Installing pi {versions.PI} into {folder} ...\n")
    folder.mkdir(parents=True, exist_ok=True)
    npm = shutil.which("npm") or sys.exit("npm is not on PATH")
    pins = (f"@earendil-works/pi-coding-agent@{versions.PI}", f"jiti@{versions.JITI}")
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run([npm, "install", "--prefix", str(folder), *quiet, *pins], check=True)
    stamp.write_text(wanted)


def _install_package(agent: Path, source: str) -> None:
    stamp = agent / "installed"
    if stamp.is_file() and stamp.read_text() == source:
        return
    sys.stderr.write(f"Installing {source} ...\n")
    shutil.rmtree(agent, ignore_errors=True)
    agent.mkdir(parents=True)
    # The loader comes from the folder of pi: `ludolf install` finds it here and fetches none.
    modules = agent / "ludolf" / "node" / "node_modules"
    modules.mkdir(parents=True)
    (modules / "jiti").symlink_to(agent.parents[1] / "pi/node_modules/jiti")
    command = [sys.executable, "-m", "ludolf", "install", source]
    done = subprocess.run(
        command, env={**os.environ, "LUDOLF_DIR": str(agent)}, cwd=agent, check=False
    )
    if done.returncode == 0:
        stamp.write_text(source)
    else:
        sys.stderr.write(f"{source} cannot be installed; its trial is skipped.\n")


if __name__ == "__main__":
    main()
