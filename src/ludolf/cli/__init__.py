"""Command line: options, one-shot modes and subcommands."""
