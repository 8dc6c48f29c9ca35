"""May this caller do this to that resource: Kafka's access control lists."""
