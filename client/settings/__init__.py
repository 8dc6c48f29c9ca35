"""The settings of clients: names, types, defaults and checks."""
