"""Tests of broker/cleaner."""
