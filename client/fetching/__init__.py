"""The consumer's fetch path: positions, fetch sessions, fetched records."""
