"""Client of the Model Context Protocol: servers of tools, prompts and resources."""
