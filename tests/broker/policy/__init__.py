"""Tests for broker/policy."""
