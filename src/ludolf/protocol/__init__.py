"""Pure data: commands, replies, events, framing, dialects. No I/O."""
