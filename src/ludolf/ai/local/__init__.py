"""Models on this machine: running servers, and GGUF files."""

SERVERS = ("ollama", "llama.cpp", "lmstudio", "vllm")
FILES = "gguf"
FILE_SUFFIX = ".gguf"
FILE_API = "ludolf-gguf"
MISSING = "To run GGUF files, install the extra: pip install 'ludolf[local]'"
# Sent to servers without keys, because the header must not be empty.
NO_KEY = "local"
