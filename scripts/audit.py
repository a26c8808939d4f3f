"""Check the dependency locks, and the installed packages against them.

Usage: python scripts/audit.py [--online]

Without a network: every requirement is pinned with hashes and names no source, installed packages
have the locked versions, and installed files are unchanged. With `--online`, pip-audit also checks
for known vulnerabilities; it is not a dependency and must be installed.
"""

import base64
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackagePath, distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-docs.lock")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_PLACE = re.compile(r"://|^-[fi]\b|--index-url|--extra-index-url|--find-links|--trusted-host| @ ")
# Written when a package is installed or used, so locks and records do not contain them.
_CHANGING = (".pyc", "RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


def lock_problems(text: str) -> Iterator[str]:
    """Yield the entries of a lock that would allow another package to be installed."""
    for block in _blocks(text):
        first = block.splitlines()[0]
        if _PLACE.search(block):
            yield f"names a source: {first}"
        elif not _PIN.match(first):
            yield f"is not pinned: {first}"
        elif "--hash=sha256:" not in block:
            yield f"has no hash: {first}"


def pins(text: str) -> dict[str, str]:
    """Return the version of each package of a lock."""
    matches = (_PIN.match(block) for block in _blocks(text))
    return {normal(match[1]): match[2] for match in matches if match}


def version_problems(locked: dict[str, str], installed: Iterable[Distribution]) -> Iterator[str]:
    """Yield installed packages whose version differs from the lock; unlocked ones are ignored."""
    for package in installed:
        name = normal(package.metadata["Name"])
        if name in locked and locked[name] != package.version:
            yield f"{name} {package.version} is installed, the lock requires {locked[name]}"


def file_problems(package: Distribution) -> Iterator[str]:
    """Yield files of a package that are missing or changed since the installation."""
    for file in package.files or ():
        if file.hash is None or file.name.endswith(_CHANGING):
            continue
        if not _is_unchanged(file):
            yield f"{package.metadata['Name']}: {file} was changed after it was installed"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_unchanged(file: PackagePath) -> bool:
    assert file.hash is not None
    try:
        data = Path(str(file.locate())).read_bytes()
    except OSError:
        return False
    digest = hashlib.new(file.hash.mode, data).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value


def _blocks(text: str) -> list[str]:
    """Split a lock into requirements, each with its continuation lines."""
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    return re.split(r"\n(?=\S)", "\n".join(lines)) if lines else []


def _offline() -> Iterator[str]:
    locked: dict[str, str] = {}
    for name in LOCKS:
        text = (ROOT / name).read_text()
        locked |= pins(text)
        yield from (f"{name}: {problem}" for problem in lock_problems(text))
    installed = [one for one in distributions() if normal(one.metadata["Name"]) in locked]
    yield from version_problems(locked, installed)
    for package in installed:
        yield from file_problems(package)


def _online() -> int:
    program = shutil.which("pip-audit")
    if program is None:
        sys.stderr.write("pip-audit is not installed: pip install pip-audit\n")
        return 1
    words = [program, "--require-hashes", "--disable-pip", "-r", str(ROOT / LOCKS[0])]
    return subprocess.run(words, check=False).returncode


def main(words: list[str]) -> int:
    problems = list(_offline())
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    sys.stdout.write(f"{len(problems)} problem(s) found without a network.\n")
    online = _online() if "--online" in words else 0
    return 1 if problems else online


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
