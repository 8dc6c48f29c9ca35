"""Tests for tests/coordinator."""
