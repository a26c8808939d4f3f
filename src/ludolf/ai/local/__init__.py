"""Models on this machine: running servers, and GGUF files."""

from ludolf.ai.models import Model

SERVERS = ("ollama", "llama.cpp", "lmstudio", "vllm")
FILES = "gguf"
FILE_SUFFIX = ".gguf"
FILE_API = "ludolf-gguf"
MISSING = "To run GGUF files, install the extra: pip install 'ludolf[local]'"
# Sent to servers without keys, because the header must not be empty.
NO_KEY = "local"


def uses_tools(model: Model) -> bool:
    """Return whether tools may be offered to a model."""
    return (model.compat or {}).get("supportsTools") is not False
