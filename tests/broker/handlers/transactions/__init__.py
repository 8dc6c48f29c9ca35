"""Tests of broker/handlers/transactions."""
