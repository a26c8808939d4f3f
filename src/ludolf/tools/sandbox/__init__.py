"""Walls around tools: a policy for our own file access, and the system's sandbox for commands."""
