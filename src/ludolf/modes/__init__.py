"""Speak to the outside: RPC, JSON events, plain text."""
