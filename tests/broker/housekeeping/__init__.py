"""Tests of broker/housekeeping."""
