"""Programs next to the terminal: the user's editor, and those that read the clipboard."""

import asyncio
import base64
import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from shutil import which

from ludolf.base import LudolfError

_READERS = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-t", "image/png", "-o")),
    ("", ("pngpaste", "-")),
)
_PNG = b"\x89PNG\r\n"
_LARGEST_IMAGE = 16 * 1024 * 1024
_SECONDS = 10.0


def edited_outside(text: str, environ: Mapping[str, str]) -> str:
    """Let the user change a text in `$VISUAL` or `$EDITOR`; returns the text.

    Raises:
        LudolfError: the editor does not start.
    """
    words = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi")
    fd, path = tempfile.mkstemp(suffix=".md", prefix="ludolf-prompt-")
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        code = subprocess.call([*words, path], env=dict(environ))
        if code:
            raise LudolfError(f"{words[0]} ended with code {code}. The text is unchanged.")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().removesuffix("\n")
    except OSError as error:
        raise LudolfError(f"Cannot start {words[0]}: {error.strerror}. Set $EDITOR.") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


async def clipboard_image(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the image in the clipboard, as base64, and its type; None if there is none."""
    path = environ.get("PATH", os.defpath)
    for variable, command in _READERS:
        program = which(command[0], path=path)
        if program is None or (variable and not environ.get(variable)):
            continue
        data = await _output((program, *command[1:]), environ)
        if data.startswith(_PNG) and len(data) <= _LARGEST_IMAGE:
            return base64.b64encode(data).decode(), "image/png"
    return None


async def _output(command: Sequence[str], environ: Mapping[str, str]) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            data, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return b""
    return data
