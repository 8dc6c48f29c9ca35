"""Decides about consumer groups and committed offsets; one shard per offsets partition."""
