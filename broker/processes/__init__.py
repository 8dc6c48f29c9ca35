"""Several brokers on one machine, one process each: ``ottla start --processes N``."""
