"""Configurations of brokers, topics and groups: definitions, checks, effective values."""
