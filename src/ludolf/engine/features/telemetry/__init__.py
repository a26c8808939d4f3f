"""OpenTelemetry: spans, metrics and log events of runs."""
