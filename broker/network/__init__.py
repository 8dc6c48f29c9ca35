"""Sockets: acceptor, processors, ordered replies, transports."""
