"""Message sets of formats 0 and 1: written, raised to batches, lowered from them. Pure."""
