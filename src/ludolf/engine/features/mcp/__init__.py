"""MCP servers of a session: their tools, prompts, resources and questions."""
