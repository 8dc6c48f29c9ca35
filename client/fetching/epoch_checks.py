"""Checks after a leader change whether the new leader's log still has what was read (KIP-320).

The log of a leader that was not in sync may differ. A consumer that continued at its offset would
silently skip records there, or get OFFSET_OUT_OF_RANGE. The log of a topic that was deleted and
recreated differs entirely; since its epochs restart, the topic id shows that.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.process.tasks import guarded
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import ZERO_UUID, TopicPartition
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import TransportError, UnsupportedByBroker

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.fetching.positions import Positions
    from ottla.wire.connection import Connection

logger = logging.getLogger(__name__)

# Before version 3 only brokers may send it.
OFFSET_FOR_LEADER_EPOCH = declare(
    ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, 3, 4
)
CONSUMER_REPLICA_ID = -1


class EpochQuery(NamedTuple):
    """Asks the leader of ``leader_epoch`` where ``epoch``, the last one read up to ``offset``, ends
    in its log."""

    turn: int
    offset: int
    epoch: int
    leader_epoch: int


class Reactions(NamedTuple):
    """The fetcher's callbacks for bad results; good ones need none."""

    truncated: Callable[[TopicPartition, int], None]
    replaced: Callable[[TopicPartition], None]
    again_later: Callable[[TopicPartition, int], None]
    wake: Callable[[], None]
    crash: Callable[[BaseException], None]


class EpochChecks:
    """Owned by one fetcher."""

    def __init__(self, cluster: ClusterClient, positions: Positions, reactions: Reactions) -> None:
        self._cluster = cluster
        self._positions = positions
        self._reactions = reactions
        self._checking: set[int] = set()

    def passed(
        self, node_id: int, connection: Connection, partitions: list[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the partitions that may be fetched from this broker; query it about the others."""
        partitions = [where for where in partitions if self._is_same_topic(where)]
        wanted: dict[TopicPartition, EpochQuery] = {}
        for where in partitions:
            position, leader_epoch = self._positions[where], self._leader_epoch(where)
            if position.is_unchecked(leader_epoch):
                offset, epoch = position.fetch_offset, position.fetched_epoch
                wanted[where] = EpochQuery(position.turn, offset, epoch, leader_epoch)
        if not wanted:
            return partitions
        try:
            version = connection.version_of(OFFSET_FOR_LEADER_EPOCH)
        except UnsupportedByBroker:
            self._pass(wanted)
            return partitions
        if self._ask_leaders(wanted) and node_id not in self._checking:
            self._checking.add(node_id)
            future = connection.send(OFFSET_FOR_LEADER_EPOCH, _request(wanted), version=version)
            on_answer = partial(self._on_answer, node_id, wanted)
            future.add_done_callback(guarded(on_answer, self._reactions.crash))
        return [where for where in partitions if where not in wanted]

    def _is_same_topic(self, where: TopicPartition) -> bool:
        """Return whether the topic is the one that was read; if not, reset the position.

        A pinned position is not reset: the broker behind the metadata may be stale, so reading
        pauses."""
        position, topic = self._positions[where], self._cluster.metadata.topics[where.topic]
        if (
            ZERO_UUID not in (position.pinned_id, topic.topic_id)
            and topic.topic_id != position.pinned_id
        ):
            self._cluster.mark_stale()
            self._reactions.again_later(where, position.turn)
            return False
        before, position.topic_id = position.topic_id, topic.topic_id
        if (
            position.fetched_epoch < 0
            or topic.topic_id == before
            or ZERO_UUID
            in (
                before,
                topic.topic_id,
            )
        ):
            return True
        logger.warning("topic %r was deleted and created again while it was read", where.topic)
        self._reactions.replaced(where)
        return False

    def _ask_leaders(self, wanted: dict[TopicPartition, EpochQuery]) -> bool:
        """Return whether all of these read from their leaders; move the others there."""
        positions = [self._positions[where] for where in wanted]
        astray = [position for position in positions if position.read_replica is not None]
        for position in astray:
            position.read_replica = None
        if astray:
            self._reactions.wake()
        return not astray

    def _leader_epoch(self, where: TopicPartition) -> int:
        known = self._cluster.metadata.partition(where)
        return -1 if known is None else known.leader_epoch

    def _pass(self, asked: dict[TopicPartition, EpochQuery]) -> None:
        for where, one in asked.items():
            self._positions[where].checked_epoch = one.leader_epoch

    def _on_answer(
        self,
        node_id: int,
        asked: dict[TopicPartition, EpochQuery],
        future: asyncio.Future[OffsetForLeaderEpochResponse],
    ) -> None:
        self._checking.discard(node_id)
        self._reactions.wake()
        if future.cancelled():
            return
        failure = future.exception()
        ends: dict[TopicPartition, EpochEndOffset] = {}
        if failure is None:
            ends = {
                TopicPartition(topic.topic, end.partition): end
                for topic in future.result().topics
                for end in topic.partitions
            }
        elif not isinstance(failure, TransportError):
            self._reactions.crash(failure)
            return
        for where, one in asked.items():
            position = self._positions.get(where)
            # A response of the previous leader may have moved the position on meanwhile, to another
            # epoch: that needs a new query.
            if position is not None and (position.turn, position.fetch_offset) == (
                one.turn,
                one.offset,
            ):
                self._settle(where, one, ends.get(where))

    def _settle(self, where: TopicPartition, asked: EpochQuery, end: EpochEndOffset | None) -> None:
        code = ErrorCode.NETWORK_EXCEPTION if end is None else error_code(end.error_code)
        if code.retriable or code in (
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.FENCED_LEADER_EPOCH,
        ):
            self._cluster.mark_stale()
            self._reactions.again_later(where, asked.turn)
            return
        position = self._positions[where]
        # A leader that cannot answer, or refuses this client, still serves the fetch.
        is_told = end is not None and code is ErrorCode.NONE and end.end_offset >= 0
        if end is not None and is_told and end.end_offset < position.fetch_offset:
            self._reactions.truncated(where, end.end_offset)
        else:
            position.checked_epoch = asked.leader_epoch


def _request(wanted: dict[TopicPartition, EpochQuery]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for where, one in wanted.items():
        topic = topics.setdefault(where.topic, OffsetForLeaderTopic(where.topic))
        topic.partitions.append(
            OffsetForLeaderPartition(where.partition, one.leader_epoch, one.epoch)
        )
    return OffsetForLeaderEpochRequest(CONSUMER_REPLICA_ID, list(topics.values()))
