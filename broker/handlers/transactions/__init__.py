"""Handlers for producer ids and transactions."""
