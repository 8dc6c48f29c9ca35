"""Foreign clients and brokers, and what tests with them share."""
