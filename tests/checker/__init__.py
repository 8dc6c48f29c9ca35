"""Judges what clients saw: one checker for histories of simulated and of real clusters."""
