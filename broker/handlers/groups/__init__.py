"""Handlers for consumer groups and their offsets."""
