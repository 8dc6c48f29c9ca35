"""Runs the tests of ``make test``: lots, one after the other, and a second attempt for some."""
