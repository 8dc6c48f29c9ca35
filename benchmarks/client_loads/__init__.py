"""One client under load in a process of its own, so that its processor time is its own."""
