"""Serializers and deserializers that are there: ``JSON.encode`` writes, ``JSON.decode`` reads.

``TEXT`` is UTF-8, ``INT`` eight bytes as Kafka's LongSerializer writes them, ``BYTES`` leaves
everything as it is. Any function from a value to bytes, or back, does as well.
"""

from __future__ import annotations

from ottla.client.records.serializers import (
    BYTES,
    INT,
    JSON,
    TEXT,
    Serde,
    TopicDeserializer,
    TopicSerializer,
)

__all__ = ["BYTES", "INT", "JSON", "TEXT", "Serde", "TopicDeserializer", "TopicSerializer"]
