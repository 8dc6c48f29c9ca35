"""Tests of coordinator/group/common."""
