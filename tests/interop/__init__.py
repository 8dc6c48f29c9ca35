"""Foreign clients as black boxes."""
