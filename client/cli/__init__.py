"""The verbs that are clients of a cluster."""
