"""Tests of coordinator/configs."""
