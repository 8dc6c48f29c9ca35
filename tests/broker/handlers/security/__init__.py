"""Tests of broker/handlers/security."""
