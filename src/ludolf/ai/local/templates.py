"""Chat template of a GGUF file: its own, or ours if its own yields no tool calls."""

import re
from pathlib import Path

from ludolf.ai.local.gguf import GgufError, GgufHeader

OWN, FENCED = "own", "fenced"
# Qwen2.5-Coder's template shows calls with doubled braces, but the model writes a fenced block.
_DOUBLED = re.compile(r"<tool_call>(\\n|\s)*\{\{")


def template_for(header: GgufHeader, wanted: str | None = None) -> str | None:
    """Return the text of the template to use; None selects the file's own.

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


def needs_fences(header: GgufHeader) -> bool:
    """Return whether the model writes calls in a form that its own template does not parse."""
    template = header.template or ""
    if header.architecture != "qwen2" or "<|im_start|>" not in template:
        return False
    return _DOUBLED.search(template) is not None


def _fenced() -> Path:
    return Path(__file__).with_name("fenced.jinja")
