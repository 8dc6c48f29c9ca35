"""The listener for clients of Kafka 0.7."""
