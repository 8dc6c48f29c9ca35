"""Simulation of groups that live in the metadata store: members come, go, die and are cut off."""
