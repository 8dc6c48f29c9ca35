"""Packages of a release: built, tried, listed and summed up by ``make dist``."""
