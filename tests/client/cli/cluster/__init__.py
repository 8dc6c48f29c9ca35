"""Tests of client/cli/cluster."""
