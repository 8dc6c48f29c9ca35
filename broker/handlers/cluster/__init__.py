"""Handlers for metadata, topics, configurations and replicas."""
