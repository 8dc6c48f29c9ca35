"""Tests of broker/log/storage."""
