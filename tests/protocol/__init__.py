"""Tests for tests/protocol."""
