"""Log directories: locks, identity, checkpoints, and their logs."""
