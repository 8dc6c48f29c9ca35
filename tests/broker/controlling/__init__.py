"""Tests of broker/controlling."""
