"""Tests of broker/handlers/groups."""
