"""Tests of client/cli/records."""
