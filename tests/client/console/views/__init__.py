"""The decisions of the console, without an event loop."""
