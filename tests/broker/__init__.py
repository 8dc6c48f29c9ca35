"""Tests for tests/broker."""
