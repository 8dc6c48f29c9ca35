"""The cluster as a client sees it: metadata, routing, coordinators."""
