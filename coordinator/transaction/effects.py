"""What the machine of transactional ids asks of its shell, beside answers and appends.

Each of these carries a token of the machine; the shell reports the outcome once, by that token, and
never after it has unloaded the shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.effects import Append, SendResponse
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.effects import Token
    from ottla.protocol.ids import TopicPartition


class DrawId(NamedTuple):
    """Get a producer id that nobody has, then call ``drawn(token, producer_id, error, moment)``
    once; the producer id is -1 when there is an error."""

    token: Token


class WriteMarkers(NamedTuple):
    """End the transaction in each of these partitions, with the leader epoch of the shard as the
    coordinator epoch (hazard T-15).

    The shell goes on until every partition has its marker or exists no more, and then calls
    ``markers_written(token, moment)``; or ``markers_refused(token, partitions, moment)``: as soon
    as one says that a newer coordinator has been there, and when only those are left that say so
    of a newer epoch of the producer."""

    token: Token
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


TransactionEffect = SendResponse | Append | DrawId | WriteMarkers
TransactionEffects = list[TransactionEffect]
