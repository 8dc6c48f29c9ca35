"""Tests of the metadata store."""
