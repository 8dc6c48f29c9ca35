"""Effects of the transaction coordinator beside responses and appends.

Each carries a token; the caller reports the outcome once, by that token, and never after it has
unloaded the shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.effects import Append, SendResponse
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.effects import Token
    from ottla.protocol.ids import TopicPartition


class DrawId(NamedTuple):
    """Get an unused producer id, then call ``drawn(token, producer_id, error, moment)`` once;
    the producer id is -1 if there is an error."""

    token: Token


class WriteMarkers(NamedTuple):
    """End the transaction in each of these partitions, with the leader epoch of the shard as the
    coordinator epoch (hazard T-15).

    The caller retries until every partition has its marker or is deleted, and then calls
    ``markers_written(token, moment)``. It calls ``markers_refused(token, partitions, moment)`` as
    soon as a partition reports a newer coordinator, and when the only partitions left report a
    newer epoch of the producer."""

    token: Token
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


TransactionEffect = SendResponse | Append | DrawId | WriteMarkers
TransactionEffects = list[TransactionEffect]
