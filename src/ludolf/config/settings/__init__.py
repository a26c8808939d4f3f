"""Settings files, arguments, paths and project trust."""
