"""Tests of ``client/classic``: the first APIs, and groups that live in ZooKeeper."""
