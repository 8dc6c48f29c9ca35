"""Tests of broker/log/directories."""
