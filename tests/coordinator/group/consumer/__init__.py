"""The KIP-848 group machine."""
