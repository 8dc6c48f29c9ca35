"""Log directories: what they hold, moves between them, failures."""
