"""Tests of client/parallel."""
