"""The client: connection, pool, metadata cache, producer, consumer, admin."""
