"""Tests of several broker processes on one machine."""
