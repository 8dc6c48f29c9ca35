"""Tests for broker/runtime."""
