"""Tests of client/sending."""
