"""MCP servers: their configuration files, cache, edits and imports from other programs."""
