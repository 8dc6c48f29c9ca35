"""Tests of client/records."""
