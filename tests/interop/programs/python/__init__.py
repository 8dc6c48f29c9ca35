"""Clients for Python. They run in environments of their own, so they import nothing of ours."""
