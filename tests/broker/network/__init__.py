"""The network of a broker, on loopback sockets, with a toy in the place of the API layer."""
