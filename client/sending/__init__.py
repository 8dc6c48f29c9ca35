"""The producer's send path: accumulator, sender, idempotence, transactions."""
