"""Tests of client/cli/transactions."""
