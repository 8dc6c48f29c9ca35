"""Tests for broker/replica."""
