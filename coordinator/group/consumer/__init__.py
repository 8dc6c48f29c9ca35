"""Groups that the broker assigns for (KIP-848): one heartbeat, reconciled step by step."""
