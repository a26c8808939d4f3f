"""Render a session as one HTML page, exported to a file or served live."""
