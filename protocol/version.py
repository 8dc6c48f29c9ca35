"""The version of Ottla: clients and brokers send it with ApiVersions (KIP-511)."""

__version__ = "0.1.0"
