"""Simulated clients, and what they record."""
