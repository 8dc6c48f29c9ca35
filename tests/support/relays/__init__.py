"""Relays between clients and brokers."""
