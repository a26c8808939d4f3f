"""Run turns: call the model, run tools, deliver queued messages, emit events."""
