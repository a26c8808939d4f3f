"""Mistral Conversations."""
