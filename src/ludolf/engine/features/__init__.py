"""Optional features of a session."""
