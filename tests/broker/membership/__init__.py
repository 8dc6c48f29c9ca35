"""Tests of broker/membership."""
