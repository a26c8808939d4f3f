"""The sandbox of tools: a policy for our own file access, and a system sandbox for commands."""
