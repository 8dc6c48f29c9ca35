"""A whole cluster in one seeded loop: brokers, clients and the metadata store's ensemble."""
