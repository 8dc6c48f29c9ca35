"""The command that serves the console, and what it reads from schema registries."""
