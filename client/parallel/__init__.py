"""Parallel processing of records with order per key."""
