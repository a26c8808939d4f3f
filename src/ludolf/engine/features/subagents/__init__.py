"""Agents in the background: engines inside this process that report to their parent."""
