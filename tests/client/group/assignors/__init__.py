"""Tests of client/group/assignors."""
