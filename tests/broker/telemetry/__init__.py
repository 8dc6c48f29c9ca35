"""Tests of ``broker/telemetry``."""
