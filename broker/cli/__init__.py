"""Commands that need the broker: start, log, doctor."""
