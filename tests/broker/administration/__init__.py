"""Tests of broker/administration."""
