"""Record model traffic to a file and replay it."""
