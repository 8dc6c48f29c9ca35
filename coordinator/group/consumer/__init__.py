"""Groups of the KIP-848 protocol, whose members are assigned by the broker through heartbeats."""
