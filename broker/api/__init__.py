"""Request to calls to response: one family of APIs per file."""
