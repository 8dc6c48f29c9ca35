"""The metadata store: ZooKeeper's meaning, with an embedded twin."""
