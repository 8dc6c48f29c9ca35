"""Tests of the controller machine."""
