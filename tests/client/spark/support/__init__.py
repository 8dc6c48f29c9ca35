"""Spark sessions, processes and topics that these tests share."""
