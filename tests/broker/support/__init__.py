"""Brokers, disks and clusters that tests of the broker share."""
