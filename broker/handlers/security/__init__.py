"""Handlers for authentication and authorization."""
