"""Tests for broker/api: requests over a real socket to a broker in this process."""
