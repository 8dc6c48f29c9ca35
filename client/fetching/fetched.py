"""Holds a consumer's completed fetches and failures until the application takes them.

It turns responses into positions, completed fetches and failures; the fetcher decides what to
fetch and when.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from ottla.client.fetching.completed_fetch import CompletedFetch
from ottla.client.fetching.fetch_request import WantedPartition, answer_room_bytes
from ottla.client.fetching.oversized_partition import OversizeSearch
from ottla.client.fetching.positions import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Positions,
    position_asked,
)
from ottla.client.process.errors import LogTruncated, NoOffset
from ottla.client.settings.config import Isolation
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.wire.errors import AnswerTooLarge, ClientClosed, ClientError, RequestRefused

if TYPE_CHECKING:
    from ottla.client.cluster.routing import Router
    from ottla.client.settings.config import ConsumerConfig
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.messages.fetch import PartitionData
    from ottla.wire.connection import Connection

logger = logging.getLogger(__name__)

RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
# Transient codes that are not marked as retriable.
PASSING = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.FETCH_SESSION_ID_NOT_FOUND})


class Arrivals:
    """The part of ``Fetcher`` that the application takes from."""

    def __init__(self, router: Router, config: ConsumerConfig) -> None:
        room_bytes, wish_bytes = answer_room_bytes(config), config.partition_bytes_max
        self.positions = Positions(wish_bytes and min(wish_bytes, room_bytes), room_bytes)
        self.completed: deque[CompletedFetch] = deque()
        # Set when there is something to take: a completed fetch or a failure.
        self.arrived = asyncio.Event()
        # Each with its partition and turn, if it is about one.
        self._failures: deque[tuple[BaseException, tuple[TopicPartition, int] | None]] = deque()
        # The exception that has ended the fetcher, if any.
        self._crash: BaseException | None = None
        self._cluster = router.cluster
        self._config = config
        self._clock = self._cluster.environment.clock
        self._random = self._cluster.environment.random.child("fetcher")
        self._oversize = OversizeSearch()
        self._wake = asyncio.Event()
        self._has_moved = False

    def wake(self) -> None:
        """Pump again, and allow a second fetch from a broker that has one in flight."""
        self._has_moved = True
        self._wake.set()

    def has_room(self) -> None:
        """Pump again after the application has taken a completed fetch.

        That needs no second fetch: while a partition of a broker is full, no fetch from it is in
        flight that left the partition out."""
        self._wake.set()

    def raise_failure(self) -> None:
        """Raise the oldest failure since the last call.

        Failures of positions that the consumer has left are dropped: between ``assign`` and
        ``seek`` a partition may have reported that it has no position."""
        self._drop_stale_failures()
        if self._failures:
            raise self._failures.popleft()[0]
        if self._crash is not None:
            # A caller that continues after the failure itself would wait for ever.
            raise ClientClosed(f"the consumer has stopped: {self._crash}")

    def _drop_stale_failures(self) -> None:
        self._failures = deque(
            (error, about)
            for error, about in self._failures
            if about is None
            or (
                (position := self.positions.get(about[0])) is not None and position.turn == about[1]
            )
        )

    def drop_stale_fetches(self) -> None:
        """Drop the fetches of positions that the consumer has left."""
        self.completed = deque(
            completed for completed in self.completed if self.is_current(completed)
        )

    def is_current(self, completed: CompletedFetch) -> bool:
        """Return whether the completed fetch belongs to the partition's current turn."""
        position = self.positions.get(completed.partition)
        return position is not None and position.turn == completed.turn

    def _on_oversize(
        self, node_id: int, error: AnswerTooLarge, wanted: list[WantedPartition]
    ) -> None:
        """Find the partition with a batch that is too large, and stop fetching it."""
        if len(wanted) > 1:
            self._oversize.suspect(node_id, [want.partition for want in wanted])
            return
        (want,) = wanted
        self._oversize.answered(node_id, [want.partition])
        position = position_asked(self.positions, *want[:3])
        if position is not None:
            error.locate(want.partition, want.offset)
            self.fail(error, want.partition)
            position.hold()

    def _failed(self, want: WantedPartition) -> None:
        """Retry later: there is no response, or no usable one."""
        position = position_asked(self.positions, *want[:3])
        if position is not None:
            if want.is_of_replica:
                position.leave_replica(self._clock.now_ms())
            self._again_later(want.partition, want.turn)

    def _on_part(self, want: WantedPartition, part: PartitionData, connection: Connection) -> None:
        code = error_code(part.error_code)
        if code is not ErrorCode.NONE:
            self._on_error(want, code, connection)
            return
        position = self.positions[want.partition]
        position.failures = 0
        position.high_watermark = part.high_watermark
        position.last_stable_offset = part.last_stable_offset
        position.log_start_offset = part.log_start_offset
        if part.preferred_read_replica >= 0:
            # The leader sends no records while a nearer replica has them.
            position.read_replica = part.preferred_read_replica
            position.read_replica_until_ms = self._clock.now_ms() + self._config.metadata_max_age_ms
            if position.read_replica not in self._cluster.metadata.brokers:
                # The replica is new or gone; the leader would keep referring the consumer to it.
                position.leave_replica(self._clock.now_ms())
                self._cluster.mark_stale()
        records = part.records
        if not isinstance(records, memoryview) or not records:
            return
        aborted = None
        if self._config.isolation is Isolation.READ_COMMITTED:
            aborted = [
                (transaction.producer_id, transaction.first_offset)
                for transaction in part.aborted_transactions or ()
            ]
        try:
            completed = CompletedFetch(want, records, aborted, self._config)
        except KafkaError as error:
            self.fail(RequestRefused.for_partition(error.code, want.partition, None, error.message))
            self._again_later(want.partition, want.turn)
            return
        if completed.next_offset is None:
            self._on_torn(want, len(records))
            return
        self.positions.fetched(
            want.partition, completed.next_offset, completed.last_epoch, want.leader_epoch
        )
        self.completed.append(completed)
        self.arrived.set()

    def _on_torn(self, want: WantedPartition, size_bytes: int) -> None:
        """Grow the limit: the broker cut the first batch at it (LOG-13)."""
        if not self.positions.grow_limit(want.partition):
            self.fail(
                RequestRefused.for_partition(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    want.partition,
                    message=f"the batch at offset {want.offset} exceeds {size_bytes} bytes, "
                    "which is all that response_bytes_max allows",
                ),
                want.partition,
            )
            self.positions[want.partition].hold()

    def _on_error(self, want: WantedPartition, code: ErrorCode, connection: Connection) -> None:
        where = want.partition
        position = position_asked(self.positions, *want[:3])
        if position is None:
            return
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            known = self._cluster.metadata.partition(where)
            is_of_leader = known is not None and known.leader_epoch == want.leader_epoch
            if position.fetch_count == 0 and is_of_leader and not want.is_of_replica:
                self._reset(where, want.offset)
            else:
                # Buffered data is still good, and a follower or former leader may have less: a
                # fetch from the leader decides afterwards.
                self._failed(want)
            return
        if code.refresh_metadata or code is ErrorCode.UNKNOWN_LEADER_EPOCH:
            self._cluster.mark_stale()
        if not (code.retriable or code in PASSING):
            self.fail(RequestRefused.for_partition(code, where, str(connection.address)))
        self._failed(want)

    def _reset(self, where: TopicPartition, offset: int | None) -> None:
        """Apply the reset policy: there is no position, or it is out of range."""
        timestamp = RESET_TIMESTAMPS.get(self._config.offset_reset)
        if timestamp is not None:
            self.positions.seek_timestamp(where, timestamp)
            self.drop_stale_fetches()
            self.wake()
            return
        self.fail(NoOffset(where, offset), where)
        # Until the application seeks: a retry would give the same result.
        self.positions[where].hold()

    def _truncated(self, where: TopicPartition, end: int) -> None:
        """Continue where the new leader's log diverges, which is before the position."""
        position = self.positions[where]
        offset = position.fetch_offset if position.offset is None else position.offset
        if self._config.offset_reset == "none":
            self.fail(LogTruncated(where, offset, end), where)
            self.positions[where].hold()
            return
        logger.warning(
            "%s-%d: the leader's log differs from offset %d on, and offset %d was reached: "
            "committed records were lost",
            *where,
            end,
            position.fetch_offset,
        )
        self.positions.seek(where, min(offset, end))
        self.drop_stale_fetches()

    def _replaced(self, where: TopicPartition) -> None:
        """Apply the reset policy to a recreated topic, whose log has nothing that was read."""
        if self._config.offset_reset == "none":
            self._truncated(where, 0)
        else:
            self._reset(where, self.positions[where].offset)

    def _again_later(self, where: TopicPartition, turn: int) -> None:
        position = self.positions.get(where)
        if position is not None and position.turn == turn:
            delay_ms = self._config.retry_backoff.delay_ms(
                position.failures + 1, self._random.random()
            )
            self.positions.delay(where, self._clock.now_ms() + delay_ms)

    def fail(self, error: ClientError, where: TopicPartition | None = None) -> None:
        """Let the application's next call raise the error, once however often it occurs.

        With a partition, only as long as the consumer stays at its position there."""
        self._drop_stale_failures()
        if all(str(known) != str(error) for known, _ in self._failures):
            about = None if where is None else (where, self.positions[where].turn)
            self._failures.append((error, about))
        self.arrived.set()

    def crash(self, failure: BaseException) -> None:
        """Stop the consumer with this failure."""
        logger.error("the consumer stops: %s", failure, exc_info=failure)
        self._crash = failure
        self._failures.append((failure, None))
        self.arrived.set()
