"""The immutable image of the cluster and the definitions of its settings."""
