"""Tests of broker/partitions."""
