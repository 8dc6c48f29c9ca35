"""Metrics that clients push (KIP-714): who is asked for which, what came, and its bounds."""
