"""Benchmark: compare Ludolf with its peers by ratios from one run."""
