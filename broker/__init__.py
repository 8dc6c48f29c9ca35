"""The broker: network, log, replica machines, the runtime that joins them, and the API."""
