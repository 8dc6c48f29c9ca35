"""The metadata store: the semantics of ZooKeeper, and an embedded implementation of them."""
