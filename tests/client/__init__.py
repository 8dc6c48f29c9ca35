"""Tests for tests/client."""
