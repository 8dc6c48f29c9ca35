"""Basic parts of the broker: request context, tasks, purgatory, timing wheel."""
