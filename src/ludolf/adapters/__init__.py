"""Adapters for evaluation harnesses: Inspect and Harbor. See docs/evaluation.md."""
