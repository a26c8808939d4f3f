"""The live view: a session that is being written, as a page that grows with it."""
