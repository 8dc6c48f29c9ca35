"""Real clusters, loads and network namespaces that tests of processes share."""
