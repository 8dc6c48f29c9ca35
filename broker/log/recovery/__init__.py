"""Loading logs at start, and repair after an unclean stop."""
