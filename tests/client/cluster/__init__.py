"""Tests of client/cluster."""
