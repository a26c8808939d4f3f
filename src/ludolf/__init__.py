"""Ludolf: a headless coding agent that hosts embed over stdin and stdout."""

__version__ = "1.0.0"
