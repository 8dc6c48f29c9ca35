"""What strangers on an open network do, and brokers that they do it to."""
