"""Tests of ``client/tracing``."""
