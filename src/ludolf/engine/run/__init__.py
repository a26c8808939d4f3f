"""Run a prompt: accept it, drive turns, retry, queue messages."""
