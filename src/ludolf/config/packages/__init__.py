"""Packages of pi: where they come from, where they are, and the resources that they contain."""
