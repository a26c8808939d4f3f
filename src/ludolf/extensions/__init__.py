"""Load user code and call it at typed hook points."""
