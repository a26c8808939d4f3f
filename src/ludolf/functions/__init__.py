"""Turn a Python function into a tool."""
