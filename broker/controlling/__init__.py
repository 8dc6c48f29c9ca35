"""The controller of the cluster, and how its requests reach the brokers."""
