"""How fast replication may be, and which replica to read from: pure machines."""
