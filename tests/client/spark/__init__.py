"""Tests of the data source for Spark."""
