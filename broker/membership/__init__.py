"""This broker's session, registration and connections to the other brokers."""
