"""Tests of ``client/classic/registry``: groups that live in ZooKeeper."""
