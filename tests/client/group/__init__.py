"""Tests of client/group."""
