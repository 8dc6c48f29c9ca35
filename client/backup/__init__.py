"""Backups of topics, group positions and settings of any Kafka-speaking cluster."""
