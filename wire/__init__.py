"""Connections to brokers, shared by the broker and the client."""
