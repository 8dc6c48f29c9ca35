"""Tests of broker/handlers/data."""
