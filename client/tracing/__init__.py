"""Spans of sends, polls and commits for OpenTelemetry, and the trace context in headers."""
