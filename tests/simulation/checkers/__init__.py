"""Invariants of a run, one family per file, judged from its history alone."""
