"""Load the extensions of a new package once: it fills the caches and shows errors early."""

import subprocess
import sys
from collections.abc import Mapping

from ludolf.base import LudolfError
from ludolf.cli.packages.install import PI_LOADER, Installer
from ludolf.config.packages.contents import FoundPackage
from ludolf.config.settings.home import Home

# Loading a large package for the first time takes about 20 s of CPU.
_SECONDS = 180.0
_QUESTION = b'{"type":"get_commands","id":"1"}\n'


def ensure_loader(installer: Installer, environ: Mapping[str, str]) -> None:
    """Install the loader of TypeScript unless there is one; without it Node removes the types."""
    from ludolf.engine.features.script_extensions.node import find_jiti

    if find_jiti(installer.home, environ) is not None:
        return
    try:
        installer.add_library(PI_LOADER)
    except LudolfError as error:
        sys.stderr.write(
            f"Warning: the loader of TypeScript is not installed: {error}. Extensions are loaded "
            "by Node itself, which does not run all of them. Run: ludolf install --pi-loader\n"
        )


def load_once(home: Home, package: FoundPackage, environ: Mapping[str, str]) -> str | None:
    """Load the scripts of a package in a process that then ends; return its warnings, if any."""
    words = [sys.executable, "-m", "ludolf", "--mode", "rpc", "--no-session", "-ne", "-ns", "-np"]
    for path in package.scripts():
        words += ["--extension", str(path)]
    try:
        done = subprocess.run(
            words,
            cwd=home.cwd,
            env={**environ, "PI_OFFLINE": "1"},
            input=_QUESTION,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"loading took longer than {_SECONDS:.0f} seconds"
    except OSError as error:
        return f"it could not be loaded: {error.strerror}"
    text = done.stderr.decode("utf-8", "replace").strip()
    return text[-2000:] if done.returncode or "Failed to load" in text else None
