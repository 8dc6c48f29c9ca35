"""Tests of broker/directories."""
