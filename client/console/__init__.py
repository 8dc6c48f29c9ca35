"""The console: web pages that show a cluster and, if allowed, change it."""
