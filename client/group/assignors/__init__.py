"""Partition assignors of classic groups. Pure."""
