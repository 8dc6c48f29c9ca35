"""May this caller do this, and how fast: pure machines."""
