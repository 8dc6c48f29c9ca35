"""A listener for clients of Kafka 0.7, whose offsets are positions in a stream of bytes."""
