"""Committed offsets of one shard. Pure."""
