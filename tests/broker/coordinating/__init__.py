"""Tests of broker/coordinating."""
