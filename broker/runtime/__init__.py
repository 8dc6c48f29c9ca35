"""Runs the machines: partitions, reads, waiting requests, the controller, housekeeping."""
