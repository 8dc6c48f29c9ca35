"""Tests of broker/handlers."""
