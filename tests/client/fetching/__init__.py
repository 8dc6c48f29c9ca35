"""Tests of client/fetching."""
