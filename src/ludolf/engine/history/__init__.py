"""Sessions, compaction, branches and handoff."""
