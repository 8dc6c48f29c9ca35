"""Tests for broker/quotas."""
