"""Options that a client chooses for a session, checked and added to those of the server."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ludolf.base import CommandError
from ludolf.base.near import did_you_mean
from ludolf.config.settings.options import Options
from ludolf.config.settings.session_request import (
    InvalidChoice,
    choice_fields,
    with_choices,
)
from ludolf.protocol.commands import invalid_parameter


def opened_with(options: Options, choices: Mapping[str, Any]) -> Options:
    """Return the options with those that a client chose.

    Raises:
        CommandError: an option is unknown, or its value has the wrong type.
    """
    try:
        return with_choices(options, choices)
    except InvalidChoice as error:
        if error.cause is not None:
            raise invalid_parameter("open", f"options.{error.name}") from None
        hint = did_you_mean(error.name, choice_fields())
        raise CommandError(f'open: unknown option "{error.name}".{hint}') from None


def check_folder(cwd: str, roots: Sequence[Path]) -> Path:
    """Return the folder that a session works in.

    Raises:
        CommandError: it is not an absolute path of a folder inside the roots.
    """
    try:
        real = Path(os.path.realpath(cwd, strict=True)) if "\0" not in cwd else None
        is_folder = os.path.isabs(cwd) and real is not None and real.is_dir()
    except (OSError, ValueError):
        is_folder = False
    if is_folder and is_inside(cwd, roots):
        return Path(os.path.normpath(cwd))
    raise CommandError(f"Not a folder here: {cwd[:500]}")


def is_inside(cwd: str, roots: Sequence[Path]) -> bool:
    """Return whether a folder is inside a root; without roots, every folder is."""
    if not roots:
        return True
    real = Path(os.path.realpath(cwd)) if "\0" not in cwd else None
    return real is not None and any(real.is_relative_to(os.path.realpath(root)) for root in roots)
