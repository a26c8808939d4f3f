"""The clients of others that are tried, and their versions: for installer, tests and docs."""

PI_PACKAGE = "@earendil-works/pi-coding-agent"
PI = ("0.79.10", "0.87.1")
OMP_PACKAGE = "@oh-my-pi/pi-coding-agent"
OMP_PARTS = "@oh-my-pi/pi-utils"
OMP = ("17.3.5", "18.2.0")
# What runs them, and what is used as it comes.
NODE = "24.21.0"
BUN = "1.4.4"
NPM = {"pi-acp": "0.0.34", "acpx": "0.19.1"}
PYTHON = {"pi-py-sdk": "0.2.1", "pi-agent-python-sdk": "0.2.6", "pidriver": "0.4.2"}
# The oldest Python that takes all of them.
PYTHON_LEAST = (3, 12)
