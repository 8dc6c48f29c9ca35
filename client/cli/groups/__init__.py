"""The verbs for consumer groups and offsets."""
