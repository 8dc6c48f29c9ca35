"""Metrics that clients push (KIP-714): subscriptions, pushed values, and limits."""
