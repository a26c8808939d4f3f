"""Models on this machine: servers that are found, and GGUF files that are run."""

from ludolf.ai.models import Model

SERVERS = ("ollama", "llama.cpp", "lmstudio", "vllm")
FILES = "gguf"
FILE_SUFFIX = ".gguf"
FILE_API = "ludolf-gguf"
MISSING = "To run GGUF files, install the extra: pip install 'ludolf[local]'"
# What is sent where a server wants no key: the header must hold something.
NO_KEY = "local"


def uses_tools(model: Model) -> bool:
    """Whether tools may be offered to a model at all."""
    return (model.compat or {}).get("supportsTools") is not False
