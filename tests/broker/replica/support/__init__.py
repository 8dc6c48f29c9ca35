"""Replicas and batches that these tests share."""
