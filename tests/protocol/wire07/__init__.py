"""The wire of Kafka 0.7."""
