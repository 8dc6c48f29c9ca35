"""Tests of broker/following."""
