"""Consumer groups and committed offsets: decisions only, one shard per offsets partition."""
