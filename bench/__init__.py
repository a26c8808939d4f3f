"""The bench: our figures beside those of peers, as ratios from one run."""
