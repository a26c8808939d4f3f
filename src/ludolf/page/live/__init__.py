"""The live view: a page that is updated while the session is written."""
