"""Serve many sessions to many clients in one process."""
