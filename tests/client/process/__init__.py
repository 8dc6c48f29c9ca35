"""Tests of client/process."""
