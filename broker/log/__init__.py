"""Bytes on disk: segments, indexes, recovery, checkpoints. Knows batches, not replication."""
