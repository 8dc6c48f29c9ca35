"""Tests of client/administration."""
