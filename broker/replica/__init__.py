"""The rules of one replica of one partition, as pure state machines."""
