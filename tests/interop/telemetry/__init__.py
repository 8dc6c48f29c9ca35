"""Clients that push metrics and traces."""
