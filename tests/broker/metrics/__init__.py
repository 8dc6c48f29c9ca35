"""Tests of what a broker tells about itself."""
