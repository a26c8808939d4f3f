"""Runs a command without network, able to write only to named folders and a private `/tmp`.

`python -m tests.packages.isolated FOLDER... -- COMMAND...` needs bubblewrap, or as root `unshare`
of util-linux, which cuts off the network only. Loopback stays, for the scripted model. The command
does not run if neither can be used.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_REFUSAL = (
    "Packages of others run without network only. Install bubblewrap (bwrap), or run this as root "
    "where unshare is installed."
)
_WITH_LOOPBACK = 'ip link set lo up && exec "$@"'


def isolated(command: Sequence[str], writable: Sequence[Path]) -> list[str]:
    """Return a command that runs another one without network.

    Raises:
        SystemExit: this machine has no means for that.
    """
    for words in (_in_bubblewrap(writable), _in_namespace()):
        if words and _works(words):
            return [*words, *command]
    sys.exit(_REFUSAL)


def _works(words: Sequence[str]) -> bool:
    return subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0


def _in_bubblewrap(writable: Sequence[Path]) -> list[str]:
    program = shutil.which("bwrap")
    if program is None:
        return []
    words = [program, "--die-with-parent", "--new-session", "--unshare-net", "--unshare-ipc"]
    words += ["--unshare-pid", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
    words += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for folder in (Path.cwd(), *writable):
        kind = "--bind" if folder in writable else "--ro-bind"
        words += [kind, str(folder), str(folder)]
    return [*words, "--chdir", str(Path.cwd())]


def _in_namespace() -> list[str]:
    program = shutil.which("unshare")
    if program is None or os.geteuid() != 0 or shutil.which("ip") is None:
        return []
    return [program, "--net", "--", "sh", "-c", _WITH_LOOPBACK, "sh"]


def main() -> None:
    end = sys.argv.index("--")
    folders = [Path(name).resolve() for name in sys.argv[1:end]]
    words = isolated(sys.argv[end + 1 :], folders)
    os.execv(words[0], words)


if __name__ == "__main__":
    main()
