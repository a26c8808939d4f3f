"""Skills, templates, context files, rules and the system prompt."""
