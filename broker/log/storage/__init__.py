"""Files of a log: segments, indexes, checkpoints, and the health of their disk."""
