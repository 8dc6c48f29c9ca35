"""Tests of broker/log."""
