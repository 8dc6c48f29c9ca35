"""The numbers of the configuration APIs: where a value comes from, and what to do with one."""

from __future__ import annotations

from enum import IntEnum

# What a resource with settings is, by Kafka's numbers.
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32


class ConfigSource(IntEnum):
    """Where a value comes from; Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigOperation(IntEnum):
    """What to do with a setting; APPEND and SUBTRACT are for lists (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
