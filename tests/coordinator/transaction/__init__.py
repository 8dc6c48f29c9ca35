"""The transaction coordinator's machine."""
