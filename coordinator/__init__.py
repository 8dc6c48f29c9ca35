"""Decisions that concern more than one partition; only store/ does I/O."""
