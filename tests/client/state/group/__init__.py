"""Tests of the machine of one member."""
