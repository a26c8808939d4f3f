"""Many agents: one prompt over many items, with a gate for their requests."""
