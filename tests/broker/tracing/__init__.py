"""Tests of ``broker/tracing``."""
