"""Measurements of the whole broker, each beside its limit from the same run."""
