"""Log directories: locks, identity, checkpoints, and the logs in them."""
