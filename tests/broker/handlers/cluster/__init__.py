"""Tests of broker/handlers/cluster."""
