"""Request handlers, by family."""
