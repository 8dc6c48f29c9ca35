"""A record as an application reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from ottla.client.records.serializers import ReadKey, ReadValue
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.records.record import Headers


class ConsumerRecord(NamedTuple, Generic[ReadKey, ReadValue]):
    """A record as a consumer returns it.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        offset: The record's offset in the partition.
        timestamp: The record's time, in milliseconds since 1970.
        key: The key, deserialized; None if it has none.
        value: The value, deserialized; None for a tombstone.
        headers: Pairs of a name and bytes.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: ReadKey | None
    value: ReadValue | None
    headers: Headers
