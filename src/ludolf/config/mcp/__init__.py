"""Files of MCP servers: entries, cached catalogs, tokens."""
