"""Connections to brokers: what the broker and the client both stand on."""
