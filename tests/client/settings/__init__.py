"""Tests of client/settings."""
