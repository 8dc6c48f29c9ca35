"""The verbs for brokers, topics and configurations."""
