"""Model providers, one file or package per API family, loaded on first use."""
