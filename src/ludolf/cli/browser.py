"""Open a page with a secret address in the browser."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ludolf.engine.build import warn_on_stderr

_LEAD = """\
<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"><title>Ludolf</title>
<a href="{url}">Open the page</a>
"""


class LeadPage:
    """A private file that leads to the page, because other users can read a browser's arguments."""

    def __init__(self) -> None:
        self._name = ""

    def open(self, url: str) -> None:
        """Start the browser; if there is none, the user has to open the address."""
        import tempfile
        import webbrowser

        descriptor, self._name = tempfile.mkstemp(prefix="ludolf-page-", suffix=".html")
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(_LEAD.format(url=url))
        if not webbrowser.open(Path(self._name).as_uri()):
            warn_on_stderr("No browser could be started. Open the address above.")

    def close(self) -> None:
        if self._name:
            os.unlink(self._name)


@contextmanager
def opened_in_browser(url: str) -> Iterator[None]:
    """Open an address for as long as the block lasts; nothing is opened if it is empty."""
    lead = LeadPage()
    try:
        if url:
            lead.open(url)
        yield
    finally:
        lead.close()
