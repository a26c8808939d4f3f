"""Parse the source of a package: an npm name, a git repository or a path."""

import os
import re
from pathlib import Path
from typing import Literal

import msgspec

from ludolf.base import ConfigError
from ludolf.base.patterns import lazy_pattern

OriginKind = Literal["npm", "git", "path"]
_NPM = lazy_pattern(r"(@[a-z0-9~][\w.~-]*/[a-z0-9~][\w.~-]*|[a-z0-9~][\w.~-]*)(?:@(.+))?", re.I)
_EXACT = lazy_pattern(r"v?\d+\.\d+\.\d+(?:[-+][\w.+-]*)?")
_SCP = lazy_pattern(r"git@([^:/]+):(.+)")
_URL = lazy_pattern(r"(?:https?|ssh|git)://", re.I)
_LONGEST = 2048


class PackageOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed source.

    `name` is the npm name, `host/path` of a repository, or the path as it is written. `version` is
    that of npm, or the ref of git. `url` is what git clones.
    """

    kind: OriginKind
    name: str
    version: str | None = None
    url: str = ""

    @property
    def pinned(self) -> bool:
        """Whether updates leave the package as it is."""
        if self.kind == "npm":
            return self.version is not None and _EXACT.fullmatch(self.version) is not None
        return self.kind == "path" or self.version is not None

    @property
    def npm_spec(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name


def is_remote(source: str) -> bool:
    """Return whether a word names a package that must be fetched, not a path."""
    return source.strip().startswith(("npm:", "git:")) or _URL.match(source.strip()) is not None


def parse_origin(source: str) -> PackageOrigin:
    """Parse `npm:name[@version]`, `git:host/path[@ref]`, a URL of git, or a path.

    Raises:
        ConfigError: the source is not one of these forms, or leads out of the folder of packages.
    """
    text = source.strip()
    if not text or len(text) > _LONGEST or not text.isprintable():
        raise ConfigError(f"{_shown(source)} does not name a package")
    if text.startswith("npm:"):
        return _npm(text.removeprefix("npm:").strip(), text)
    if text.startswith("git:") and not text.startswith("git://"):
        return _git(text.removeprefix("git:").strip(), text)
    if _URL.match(text):
        return _git(text, text)
    return PackageOrigin(kind="path", name=text)


def identity(origin: PackageOrigin, base: Path, user: Path) -> str:
    """Return the same text for all versions of one package; a path starts at `base`."""
    if origin.kind == "path":
        return f"path:{place_of(origin.name, base, user)}"
    return f"{origin.kind}:{origin.name}"


def place_of(path: str, base: Path, user: Path) -> Path:
    """Return the absolute form of a path from a file in `base`; expands a leading ~."""
    if path == "~" or path.startswith("~/"):
        return Path(os.path.normpath(user / path[2:]))
    return Path(os.path.normpath(base / path))


def _npm(spec: str, source: str) -> PackageOrigin:
    match = _NPM.fullmatch(spec)
    # A version that begins with a dash would be an option of npm.
    if match is None or ".." in match[1].split("/") or (match[2] or "").startswith("-"):
        raise ConfigError(
            f"{_shown(source)} is not a package of npm. Use npm:name, npm:@scope/name or "
            "npm:name@version."
        )
    return PackageOrigin(kind="npm", name=match[1], version=match[2])


def _git(text: str, source: str) -> PackageOrigin:
    from urllib.parse import urlsplit

    scp = _SCP.fullmatch(text)
    if scp is not None:
        host, (path, ref) = scp[1], _without_ref(scp[2])
        url = f"git@{host}:{path}"
    else:
        given = text if "://" in text else f"https://{text}"
        try:
            parts = urlsplit(given)
            host = parts.hostname or ""
        except ValueError:
            host = ""
        path, ref = _without_ref(parts.path.lstrip("/")) if host else ("", None)
        slash = "/" if host and parts.path.startswith("/") else ""
        url = f"{parts.scheme}://{parts.netloc}{slash}{path}" if host else ""
    name = path.removesuffix("/").removesuffix(".git")
    if not _is_safe(host, name, ref):
        raise ConfigError(
            f"{_shown(source)} is not a git repository. Use git:host/owner/name, "
            "git:git@host:owner/name or a URL, with @ref for a branch, tag or commit."
        )
    return PackageOrigin(kind="git", name=f"{host}/{name}", version=ref, url=url)


def _without_ref(path: str) -> tuple[str, str | None]:
    name, at, ref = path.partition("@")
    if not at:
        name, at, ref = path.partition("#")
    return name, ref or None


def _is_safe(host: str, path: str, ref: str | None) -> bool:
    """Return whether folders may have these names, and git does not see an option."""
    from urllib.parse import unquote

    for text in (host, path, unquote(host), unquote(path)):
        parts = text.split("/")
        if "\\" in text or "\0" in text or text.startswith(("-", "/")):
            return False
        if any(part in ("", ".", "..") for part in parts):
            return False
    known = "." in host or host == "localhost"
    return known and "/" not in unquote(host) and "/" in path and not (ref or "").startswith("-")


def _shown(source: str) -> str:
    text = " ".join(source.split())
    return f'"{text[:80]}{"…" if len(text) > 80 else ""}"'
