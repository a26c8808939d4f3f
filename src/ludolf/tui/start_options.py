"""How the terminal program was started."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec


class FirstPrompt(msgspec.Struct, frozen=True):
    """A prompt of the command line, with images as the protocol has them."""

    text: str
    images: tuple[dict[str, Any], ...] = ()


class StartOptions(msgspec.Struct, kw_only=True):
    """What the command line, the environment and the settings say.

    Attributes:
        session: `new`, `last`, an id or a path.
        choices: Options of the session, as `open` takes them.
        address: A server to use; None starts one for this terminal.
        attaches: The session is loaded on that server, and is attached to.
        view: Only look at the session.
        messages: Prompts that are sent first.
        themes: Files of themes and folders of them that the settings name.
        images: `auto`, `kitty`, `iterm2` or `off`.
        notify: `off`, `bell` or `osc9`.
        aborts: A hang-up stops the run.
    """

    cwd: str
    agent_dir: Path
    environ: Mapping[str, str]
    session: str = "new"
    choices: Mapping[str, Any] = {}
    address: str | None = None
    attaches: bool = False
    view: bool = False
    messages: tuple[FirstPrompt, ...] = ()
    theme: str = "auto"
    themes: tuple[Path, ...] = ()
    has_colour: bool = True
    images: str = "auto"
    notify: str = "off"
    aborts: bool = False
    show_thinking: bool = False

    @property
    def home(self) -> str:
        return self.environ.get("HOME", "")
