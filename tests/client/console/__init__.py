"""The console: its decisions without an event loop, its pages over HTTP."""
