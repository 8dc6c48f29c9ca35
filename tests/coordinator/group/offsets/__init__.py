"""Tests of coordinator/group/offsets."""
