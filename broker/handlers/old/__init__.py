"""Versions of Kafka before 0.11 whose requests need another way than the later ones."""
