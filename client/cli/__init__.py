"""Commands that talk to a broker."""
