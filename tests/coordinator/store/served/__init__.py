"""Tests of the store that is served to other processes."""
