"""`--export SESSION [FILE]`: write a session file as an HTML page."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ludolf.base import CommandError
from ludolf.cli.progress import working
from ludolf.engine.build import current_folder, warn_on_stderr
from ludolf.page import export_html
from ludolf.session.tree import open_session


def export_file(source: str, rest: Sequence[str]) -> int:
    """Write the page, print its path and return the exit code.

    Raises:
        CommandError: the session does not exist, or the page cannot be written.
    """
    path = Path(source).expanduser()
    if not path.is_file():
        raise CommandError(f"File not found: {source}")
    target = Path(rest[0]).expanduser() if rest else None
    with working("Loading the session"):
        session = open_session(path, str(current_folder()), warn_on_stderr, write=False)
    with working("Writing the page") as on_progress:
        written = export_html(session, target, on_progress=on_progress)
    sys.stdout.write(f"Exported to: {written}\n")
    return 0
