"""Tests for ottla/: what is public, and what it costs to load it."""
