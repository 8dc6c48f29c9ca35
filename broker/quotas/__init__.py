"""Quotas: how much a client may use, and how long the broker throttles it above that."""
