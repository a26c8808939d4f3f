"""Connect extensions to the engine."""
