"""Clients for Python. They run in separate environments, so they import nothing of ours."""
