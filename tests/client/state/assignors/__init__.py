"""Tests of the ways to divide partitions."""
