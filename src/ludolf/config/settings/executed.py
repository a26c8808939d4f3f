"""List the files that Ludolf runs code from, for loading, trust and the sandbox.

Extensions are loaded only from the sources that `find_sources` returns. Trust takes its digest over
the same sources, and the sandbox protects them, their links and the paths where one can appear.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ludolf.base import ConfigError, expand_user
from ludolf.base.patterns import lazy_pattern
from ludolf.base.project_files import FileRefused, read_bytes
from ludolf.config.resources.entry_points import installed
from ludolf.config.resources.sources import find_places, find_sources
from ludolf.config.settings.files import read_object
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import Settings, SettingsFiles

if TYPE_CHECKING:
    from hashlib import _Hash

# Folders below an extension that the loader never imports from (`extensions/sources.py`): other
# programs fill them, and they can be very large.
NEVER_IMPORTED = frozenset(("__pycache__", "node_modules", ".git"))
# An extension has few files; the walk of a large tree must not delay the start.
MOST_FILES = 10_000
# Limit for the code of all extensions of a project. Hashing it takes about 0.1 s.
MOST_BYTES = 64 * 1024 * 1024
# The digest of a project without code.
NOTHING = ""
_MOST_LINKS = 40
_USER_FILES = (
    *("settings.json", "models.json", "auth.json", "trust.json", "trust-digests.json"),
    *("mcp.json", "mcp-auth.json", "mcp-cache.json"),
)
# Folders of installed packages, of those for one session, of the library of scripts, and of their
# code in the form that Node runs.
_PACKAGE_FOLDERS = ("npm", "git", "tmp/extensions", "ludolf", "cache")
_VARIABLE = lazy_pattern(r"\$(?:(\w+)|\{([^}]*)\})", re.ASCII)


class CannotCheck(ConfigError):
    """Code cannot be checked: it is too large, or a file is not a regular file."""


def project_code(home: Home) -> tuple[Path, ...]:
    """Return the existing files and folders that a trusted project runs code from."""
    files = SettingsFiles(home, trusted=True)
    sources = find_sources("extensions", home, files)
    paths = [source.path for source in sources if source.scope == "project"]
    config = (
        *(home.project_settings_file, home.project_mcp_file, home.shared_mcp_file),
        home.project / "npm" / "package-lock.json",
        *_package_code(home, files),
    )
    return tuple(
        path
        for path in (*config, *paths, *_shell(home, files.project))
        if _is_path(path) and os.path.lexists(path)
    )


def code_places(
    home: Home, files: SettingsFiles, environ: Mapping[str, str], *, paths: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Return all resolved paths that Ludolf runs code from, now or at a later start.

    The list has the paths of extensions, the shells and the key commands of the settings, the
    settings files, modules that Python loads at each start, and each symbolic link to or out of one
    of them. `paths` are extensions of the command line. A path may be missing. The project's
    configuration folder is left out: the sandbox protects all of it.

    Raises:
        CannotCheck: a folder of extensions has more than `MOST_FILES` files.
    """
    sources = find_places("extensions", home, files, paths=paths)
    places = [source.path for source in sources]
    places += [home.agent / name for name in _USER_FILES]
    # Not searched for links: npm and git create the files below.
    roots = [home.agent / name for name in _PACKAGE_FOLDERS]
    places += [home.project_settings_file, *_shell(home, files.current), *_shell(home, files.user)]
    places += [*_key_commands(home, environ), *_installed(), *_at_start()]
    own = os.path.realpath(home.project)
    resolved = [place for path in places if _is_path(path) for place in _with_links(path)]
    resolved += [Path(os.path.realpath(root)) for root in roots]
    return tuple(dict.fromkeys(place for place in resolved if not place.is_relative_to(own)))


def files_below(path: Path) -> Iterator[Path]:
    """Yield a file, or all files and links below a folder; follows links to folders.

    Raises:
        CannotCheck: the tree has more than `MOST_FILES` files and folders.
    """
    waiting, entered, count = [path], set(), 0
    while waiting:
        place = waiting.pop()
        count += 1
        if count > MOST_FILES:
            raise CannotCheck(f"{path} has more than {MOST_FILES:,} files and folders")
        if place.is_symlink() or not place.is_dir():
            yield place
        if place.is_dir() and (real := os.path.realpath(place)) not in entered:
            entered.add(real)
            waiting += _children(place)


def links_to(path: Path) -> Iterator[Path]:
    """Yield each symbolic link on the way to a path, with the resolved path of its folder."""
    here, rest, count = Path("/"), _steps(str(path.absolute())), 0
    while rest and count < _MOST_LINKS:
        name = rest.pop()
        if name == "..":
            here = here.parent
            continue
        try:
            target = os.readlink(here / name)
        except OSError:
            here /= name
            continue
        yield here / name
        count += 1
        rest += _steps(target)
        if target.startswith("/"):
            here = Path("/")


# ---------------------------------------------------------------- digests


def digest(home: Home) -> str:
    """Return the digest of settings, MCP servers, extensions and shell; `NOTHING` without any.

    Raises:
        CannotCheck: they have too many files, more than `MOST_BYTES`, or a file is not regular.
    """
    from hashlib import sha256

    tops = project_code(home)
    if not tops:
        return NOTHING
    total, left = sha256(), MOST_BYTES
    for top in tops:
        for link in links_to(top):
            _add_name(total, link, home)
        for path in files_below(top):
            _add_name(total, path, home)
            left -= _add_content(total, path, left)
    return total.hexdigest()


def digests_of(paths: Iterable[Path]) -> dict[str, str]:
    """Return the digest of each file by its path."""
    from hashlib import sha256

    digests, left = {}, MOST_BYTES
    for path in paths:
        total = sha256()
        left -= _add_content(total, path, left)
        digests[str(path)] = total.hexdigest()
    return digests


def _add_name(total: "_Hash", path: Path, home: Home) -> None:
    total.update(os.fsencode(os.path.relpath(path, home.cwd)) + b"\0")
    try:
        total.update(os.fsencode(os.readlink(path)) + b"\0")
    except OSError:
        total.update(b"\0")  # not a link


def _add_content(total: "_Hash", path: Path, left: int) -> int:
    """Add length and content of a regular file; return its size."""
    data = _content(path, left)
    total.update(f"{-1 if data is None else len(data)}:".encode())
    total.update(data or b"")
    return len(data or b"")


def _content(path: Path, left: int) -> bytes | None:
    if not path.is_file():
        return None  # the loader takes only regular files
    try:
        return read_bytes(path, within=None, limit=left)
    except FileRefused as error:
        raise CannotCheck(str(error)) from error
    except ConfigError:
        return None  # the loader cannot read it either


# ---------------------------------------------------------------- private


def _children(folder: Path) -> list[Path]:
    """Return the entries of a folder, in a fixed order."""
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError:
        return []  # the loader cannot list it either
    return [folder / name for name in names if name not in NEVER_IMPORTED]


def _with_links(path: Path) -> Iterator[Path]:
    yield from links_to(path)
    yield Path(os.path.realpath(path))
    if not path.is_dir():
        return
    for place in files_below(path):
        if place.is_symlink():
            yield from links_to(place)
            yield Path(os.path.realpath(place))


def _steps(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _package_code(home: Home, files: SettingsFiles) -> list[Path]:
    """Return the code of the project's packages, apart from what the lock file of npm names.

    A checkout counts by the files of git that name its commit, a path by the folders of its
    extensions. A folder around the project counts by the extension only.
    """
    if not files.project.packages:
        return []
    from ludolf.config.packages.contents import configured_packages

    paths: list[Path] = []
    for package in configured_packages(home, files).packages:
        if package.entry.scope != "project":
            continue
        if package.entry.origin.kind == "git":
            git = package.folder / ".git"
            paths += [git / name for name in ("HEAD", "refs/heads", "packed-refs")]
        for path in package.enabled("extensions") if package.entry.origin.kind == "path" else ():
            paths.append(path if home.project.is_relative_to(path.parent) else path.parent)
    return paths


def _shell(home: Home, settings: Settings) -> tuple[Path, ...]:
    """Return the shell; a relative path starts at the working folder, as for commands."""
    path = settings.shell_path
    return (home.cwd / expand_user(path, home.user),) if path else ()


def _installed() -> Iterator[Path]:
    """Yield installed extensions; an editable install may be in the working folder."""
    for path in installed():
        yield path.parent if path.name == "__init__.py" else path


def _at_start() -> Iterator[Path]:
    """Yield the modules that Python imports at start, from folders outside the interpreter's.

    The first folder of the import path is that of the program; Python adds it after the imports.
    """
    own = tuple(map(os.path.realpath, (sys.prefix, sys.base_prefix)))
    for folder in map(Path, filter(None, sys.path[1:])):
        if not any(Path(os.path.realpath(folder)).is_relative_to(place) for place in own):
            yield from (folder / f"{name}.py" for name in ("sitecustomize", "usercustomize"))


def _key_commands(home: Home, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that occur in key commands (`!command`)."""
    import shlex
    from shutil import which

    for text in _commands_in((home.models_file, home.auth_file, home.mcp_file)):
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
        for word in words:
            filled = _VARIABLE.sub(lambda name: environ.get(name[1] or name[2], name[0]), word)
            place = expand_user(filled, home.user)
            program = (
                which(place, path=environ.get("PATH", os.defpath)) if "/" not in place else None
            )
            if (home.cwd / place).is_file():
                yield home.cwd / place
            if program is not None:
                yield Path(program)


def _commands_in(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        try:
            waiting: list[Any] = [read_object(path, relaxed=True)]
        except ConfigError:
            continue  # an unreadable file does not provide a key
        while waiting:
            value = waiting.pop()
            if isinstance(value, str) and value.startswith("!"):
                yield value[1:]
            elif isinstance(value, dict):
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value


def _is_path(path: Path) -> bool:
    """Return whether the system accepts the path: a JSON string may not be a file name."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False
