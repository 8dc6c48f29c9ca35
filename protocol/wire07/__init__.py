"""The wire of Kafka 0.7: requests 0 to 4, their answers, and messages without offset and key."""
