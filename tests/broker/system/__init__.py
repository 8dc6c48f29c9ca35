"""Tests of broker/system."""
