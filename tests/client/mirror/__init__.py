"""Copies between clusters."""
