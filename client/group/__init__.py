"""Group membership and committed offsets of consumers."""
