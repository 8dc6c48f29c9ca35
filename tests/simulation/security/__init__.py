"""Simulation of a secured cluster: its audit log and its delegation tokens under chaos."""
