"""Writes the typed commands of the client that waits, from those of the one for asyncio.

Usage: python scripts/make_sync_client.py
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "ludolf" / "client"
GROUPS = ("agents", "models", "program", "prompting", "sessions")
_CHANGES = (
    ("async def ", "def "),
    ("await ", ""),
    ("from ludolf.client.base import", "from ludolf.client.blocking.asking import"),
    ("CommandSender", "BlockingCommandSender"),
    ("\nclass ", "\nclass Blocking"),
)


def blocking(name: str) -> str:
    """The text of one group of commands without asyncio."""
    text = (FOLDER / f"{name}.py").read_text()
    for old, new in _CHANGES:
        text = text.replace(old, new)
    _, _, rest = text.partition("\n")
    return formatted(f'"""Made from client/{name}.py by scripts/make_sync_client.py."""\n{rest}')


def formatted(text: str) -> str:
    """As `make fmt` would write it."""
    command = [sys.executable, "-m", "ruff", "format", "-"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=True, cwd=ROOT)
    return done.stdout


def main() -> None:
    for name in GROUPS:
        (FOLDER / "blocking" / f"{name}.py").write_text(blocking(name))


if __name__ == "__main__":
    main()
