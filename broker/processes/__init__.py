"""Several brokers of one machine, each a process of its own: ``ottla start --processes N``."""
