"""The conversation tree, kept in a JSONL file, and the context computed from it."""
