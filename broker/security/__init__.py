"""Authentication of the broker's clients, TLS, and the audit log."""
