"""Clients and files of Kafka before 0.11."""
