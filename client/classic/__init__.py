"""The first producer and consumer APIs of Kafka, over today's protocol: ``ottla.classic``."""
