"""Who speaks to the broker, and how; the record of what was decided about it."""
