"""Values and frames of the Agent Client Protocol, version 1; pure data without input or output."""
