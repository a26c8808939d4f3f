"""Readers for the files of the project and of the user."""

import os
from pathlib import Path

from ludolf.base.project_files import IsHidden, Reader, project_reader
from ludolf.config.settings.home import Home

# The user's own files may be links to any path.
OWN = Reader()


def reader_of(home: Home, folder: Path, is_hidden: IsHidden | None = None) -> Reader:
    """Return the reader for files of a project folder; `is_hidden` asks the sandbox."""
    return project_reader(folder, (home.user, home.agent), is_hidden)


def reader_for_named(
    home: Home, place: Path, is_hidden: IsHidden | None = None, *, outside: Reader = OWN
) -> Reader:
    """Return the reader for a path that the user or a trusted project configured.

    A path inside the project is read as a project file; `outside` reads any other path.
    """
    project = reader_of(home, home.cwd, is_hidden)
    roots = (str(project.within), os.path.realpath(home.cwd))
    named = Path(os.path.normpath(home.cwd / place))
    inside = any(os.path.realpath(folder) in roots for folder in (named, *named.parents))
    return project if inside else outside
