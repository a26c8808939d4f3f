"""`python -m tests.soak SEED COMMANDS`: a long soak, and what came of it."""

import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec

from tests.soak.soak import soak


def main(words: list[str]) -> int:
    seed, commands = (int(word) for word in words)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        result = asyncio.run(soak(Path(folder), seed, commands))
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    return 1 if result.trouble else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
