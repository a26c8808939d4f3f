"""The chat template that a GGUF file runs with: its own, or ours where that yields no calls."""

import re
from pathlib import Path

from ludolf.ai.local.gguf import GgufError, Header

OWN, FENCED = "own", "fenced"
# Qwen2.5-Coder shows a call with doubled braces in its template and writes a fenced block instead.
_DOUBLED = re.compile(r"<tool_call>(\\n|\s)*\{\{")


def template_for(header: Header, wanted: str | None = None) -> str | None:
    """The text of the template to use; None leaves the file's own.

    `wanted` is "own", "fenced", or the path of a template.

    Raises:
        GgufError: the template cannot be read.
    """
    choice = wanted or (FENCED if needs_fences(header) else OWN)
    if choice == OWN:
        return None
    path = _fenced() if choice == FENCED else Path(choice).expanduser()
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GgufError(f"Cannot read the chat template {path}: {error}") from error


def needs_fences(header: Header) -> bool:
    """Whether calls of this model are recognised only in the form it really writes."""
    template = header.template or ""
    if header.architecture != "qwen2" or "<|im_start|>" not in template:
        return False
    return _DOUBLED.search(template) is not None


def _fenced() -> Path:
    return Path(__file__).with_name("fenced.jinja")
