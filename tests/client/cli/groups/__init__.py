"""Tests of client/cli/groups."""
