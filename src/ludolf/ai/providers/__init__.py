"""One file per API family, each loaded on first use."""
