"""Brokers and clients that tests of the client share."""
