"""Tests for broker/testing."""
