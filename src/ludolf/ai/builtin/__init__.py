"""Models that need no server: offline, scripted, playback."""
