"""Backups: their machines, and whole ones of real brokers."""
