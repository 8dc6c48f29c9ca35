"""Ready-made serializers and deserializers: ``JSON.encode`` writes, ``JSON.decode`` reads.

``TEXT`` is UTF-8, ``INT`` eight bytes like Kafka's LongSerializer, ``BYTES`` leaves everything
unchanged. Any function from a value to bytes, or back, works too.
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
