"""Tests of broker/engine."""
