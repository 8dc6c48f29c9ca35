"""One record as an application reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from ottla.client.records.serializers import ReadKey, ReadValue
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.records.record import Headers


class ConsumerRecord(NamedTuple, Generic[ReadKey, ReadValue]):
    """The timestamp is in milliseconds since 1970. Keys and values are bytes unless the consumer
    has deserializers."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: ReadKey | None
    value: ReadValue | None
    headers: Headers
