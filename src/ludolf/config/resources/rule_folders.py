"""Folders of stream rules, checked at every start."""

from pathlib import Path

from ludolf.config.settings.home import Home

PROJECT_FOLDERS = (".pi/rules", ".omp/rules", ".cursor/rules", ".windsurf/rules", ".clinerules")


def user_folders(home: Home) -> tuple[Path, ...]:
    return (home.agent / "rules", home.user / ".omp" / "agent" / "rules")


def has_rules(home: Home) -> bool:
    """Return whether one of the folders exists."""
    folders = (*(home.cwd / name for name in PROJECT_FOLDERS), *user_folders(home))
    return any(folder.is_dir() for folder in folders)
