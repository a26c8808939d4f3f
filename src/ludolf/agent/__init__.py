"""Run turns: ask the model, run tools, obey the queue, emit events."""
