"""State, settings and records that classic and consumer groups share. Pure."""
