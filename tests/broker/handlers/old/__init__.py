"""Versions of Kafka before 0.11."""
