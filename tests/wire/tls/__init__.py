"""Tests of TLS over sockets."""
