"""A broker's metrics as families, read from its parts at each scrape."""
