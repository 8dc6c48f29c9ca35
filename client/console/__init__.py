"""The console: web pages that show a cluster and, when allowed, change it."""
