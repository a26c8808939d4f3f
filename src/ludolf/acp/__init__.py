"""Serve editors: the Agent Client Protocol on stdio."""
