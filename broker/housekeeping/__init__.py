"""Periodic work: flushes, retention, checkpoints, expiry."""
