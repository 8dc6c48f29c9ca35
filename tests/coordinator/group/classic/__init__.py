"""The classic group machine."""
