"""The MCP peers of others and their versions: for the installer and the tests."""

# The SDK is a library; the other packages are servers.
PYTHON = {
    "mcp": "2.3.0",
    "mcp-server-fetch": "2026.10.24",
    "mcp-server-git": "2026.10.19",
    "mcp-server-time": "2026.10.19",
}
NPM = {
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
}
