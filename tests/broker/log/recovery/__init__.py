"""Tests of broker/log/recovery."""
