"""The consumer's second half: keeps a little data ready for every partition.

One task pumps; each broker has at most one fetch under way, and the partitions to fetch, the
positions and what an answer means for them are the business of ``state``. What has arrived waits
in ``chunks`` until the application takes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.absences import Absences
from ottla.client.chunk import Chunk
from ottla.client.config import Isolation
from ottla.client.epoch_checks import EpochChecks, Reactions
from ottla.client.errors import ClientError, LogTruncated, NoOffset, RequestRefused, TransportError
from ottla.client.fetch_request import FETCH, Wanted, build_request, parts_of, version_for
from ottla.client.offsets import look_up
from ottla.client.state.fetch_session import SESSION_ERRORS, FetchSession
from ottla.client.state.positions import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Positions,
    leave_replica,
    place_asked,
)
from ottla.client.tasks import guarded
from ottla.client.upkeep import Upkeep
from ottla.protocol.errors import ErrorCode, KafkaError, error_code

if TYPE_CHECKING:
    from ottla.client.config import ConsumerConfig
    from ottla.client.connection import Connection
    from ottla.client.routing import Router
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.messages.fetch import FetchResponse, PartitionData
    from ottla.protocol.ports import Timer

    Sessions = dict[int, tuple[Connection, FetchSession]]

logger = logging.getLogger(__name__)

RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
# Answers that mean nothing but "try again in a moment", beside those that are retriable anyway.
PASSING = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.FETCH_SESSION_ID_NOT_FOUND})


class Fetcher:
    """Owned by one consumer."""

    def __init__(self, router: Router, config: ConsumerConfig) -> None:
        self.positions = Positions(config.partition_bytes_max, config.response_bytes_max)
        self.chunks: deque[Chunk] = deque()
        # Set when there is something to take: a chunk or a failure.
        self.arrived = asyncio.Event()
        self._failures: deque[BaseException] = deque()
        self._router = router
        self._cluster = router.cluster
        self._config = config
        self._clock = self._cluster.environment.clock
        self._random = self._cluster.environment.random.child("fetcher")
        self._absences = Absences(self._cluster.metadata)
        self._fetching: set[int] = set()
        self._sessions: Sessions = {}
        self._upkeep = Upkeep(self._cluster, self.wake, self.crash)
        self._wake = asyncio.Event()
        self._epoch_checks = EpochChecks(
            self._cluster,
            self.positions,
            Reactions(self._truncated, self._replaced, self._again_later, self.wake, self.crash),
        )
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to fetch what is assigned."""
        self._upkeep.run(self._run(), "consumer")

    async def stop(self) -> None:
        """End. What has arrived and was not taken is dropped; positions stay what they are."""
        await self._upkeep.stop()
        if self._timer is not None:
            self._timer.cancel()

    def wake(self) -> None:
        """Something has changed that may allow another fetch."""
        self._wake.set()

    def raise_failure(self) -> None:
        """Raise what has gone wrong since the last call, one thing at a time."""
        if self._failures:
            raise self._failures.popleft()

    def drop_stale_chunks(self) -> None:
        """Forget what has arrived for places that the consumer has left."""
        self.chunks = deque(chunk for chunk in self.chunks if self.is_current(chunk))

    def is_current(self, chunk: Chunk) -> bool:
        """Whether the chunk belongs to the place where the consumer is."""
        place = self.positions.get(chunk.partition)
        return place is not None and place.turn == chunk.turn

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._pump()
            await self._wake.wait()

    def _pump(self) -> None:
        now_ms = self._clock.now_ms()
        for partition in self.positions.without_position():
            self._reset(partition, None)
        if self.positions.to_look_up(now_ms):
            self._upkeep.start_job("offsets", self._look_up)
        by_node: dict[int, list[TopicPartition]] = {}
        leaderless = False
        for partition in self.positions.partitions:
            leader = self._cluster.metadata.leader_of(partition)
            if leader is None:
                leaderless = True
                self._absences.miss_partition(partition)
            else:
                brokers = self._cluster.metadata.brokers
                source = self.positions[partition].source(leader, brokers, now_ms)
                by_node.setdefault(source, []).append(partition)
        for node_id, partitions in by_node.items():
            self._fetch_from(node_id, partitions, now_ms)
        if self.positions.partitions and (leaderless or self._cluster.is_stale):
            self._upkeep.refresh({where.topic for where in self.positions.partitions})
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        later_ms = self.positions.next_delay_ms(now_ms)
        if later_ms is not None:
            self._timer = self._clock.call_at(later_ms, self.wake)

    def _fetch_from(self, node_id: int, partitions: list[TopicPartition], now_ms: float) -> None:
        positions = self.positions
        if node_id in self._fetching or any(map(positions.is_full, partitions)):
            return
        ready = [where for where in partitions if positions.fetchable(where, now_ms)]
        if not ready:
            return
        connection = self._cluster.pool.ready(node_id)
        if connection is None:
            self._upkeep.connect(node_id, partial(leave_replica, self.positions, now_ms))
            return
        wanted = []
        metadata = self._cluster.metadata
        by_leader = False
        for where in self._epoch_checks.passed(node_id, connection, ready):
            place, known = positions[where], metadata.partition(where)
            leader_id, leader_epoch = (
                (node_id, -1) if known is None else (known.leader_id, known.leader_epoch)
            )
            is_of_replica = leader_id != node_id
            by_leader = by_leader or now_ms < place.leader_only_until_ms
            offset, limit_bytes = place.fetch_offset, place.limit_bytes
            wanted.append(
                Wanted(where, place.turn, offset, limit_bytes, leader_epoch, is_of_replica)
            )
        if not wanted:
            return
        session = session_of(self._sessions, node_id, connection)
        request = build_request(wanted, metadata, self._config, session, by_leader=by_leader)
        version = version_for(connection, wanted, metadata)
        timeout_ms = self._config.request_timeout_ms + self._config.fetch_wait_ms
        future = connection.send(FETCH, request, version=version, timeout_ms=timeout_ms)
        self._fetching.add(node_id)
        on_answer = partial(self._on_answer, node_id, connection, (session, wanted))
        future.add_done_callback(guarded(on_answer, self.crash))

    # Answers.

    def _on_answer(
        self,
        node_id: int,
        connection: Connection,
        asked: tuple[FetchSession, list[Wanted]],
        future: asyncio.Future[FetchResponse],
    ) -> None:
        self._fetching.discard(node_id)
        self.wake()
        if future.cancelled():
            return
        session, wanted = asked
        failure = future.exception()
        if failure is not None:
            session.lost()
            self._cluster.mark_stale()
            for want in wanted:
                self._failed(want)
            if not isinstance(failure, TransportError):
                self.crash(failure)
            return
        response = future.result()
        code = error_code(response.error_code)
        was_incremental = session.is_incremental
        session.answered(code, response.session_id)
        if code is not ErrorCode.NONE:
            if code in SESSION_ERRORS and was_incremental:
                # The next request says everything again, at once.
                return
            for want in wanted:
                self._on_error(want, code, connection)
            return
        by_partition = {want.partition: want for want in wanted}
        is_empty = response.throttle_time_ms == 0
        for where, part in parts_of(wanted, self._cluster.metadata, response):
            asked_for = by_partition.get(where)
            if part.records or part.error_code or part.preferred_read_replica >= 0:
                is_empty = False
            if asked_for is not None and place_asked(self.positions, *asked_for[:3]) is not None:
                self._on_part(asked_for, part, connection)
        if is_empty:
            for want in wanted:
                if (place := place_asked(self.positions, *want[:3])) is not None:
                    is_committed = self._config.isolation is Isolation.READ_COMMITTED
                    place.came_dry(want.offset, place.end(is_committed=is_committed))

    def _failed(self, want: Wanted) -> None:
        """There is no answer, or none that is of use."""
        place = place_asked(self.positions, *want[:3])
        if place is not None:
            if want.is_of_replica:
                place.leave_replica(self._clock.now_ms())
            self._again_later(want.partition, want.turn)

    def _on_part(self, want: Wanted, part: PartitionData, connection: Connection) -> None:
        code = error_code(part.error_code)
        if code is not ErrorCode.NONE:
            self._on_error(want, code, connection)
            return
        place = self.positions[want.partition]
        place.failures = 0
        place.high_watermark = part.high_watermark
        place.last_stable_offset = part.last_stable_offset
        place.log_start_offset = part.log_start_offset
        if part.preferred_read_replica >= 0:
            # Its leader gives us nothing as long as a nearer replica has it.
            place.read_replica = part.preferred_read_replica
            place.read_replica_until_ms = self._clock.now_ms() + self._config.metadata_max_age_ms
            if place.read_replica not in self._cluster.metadata.brokers:
                # It is new, or gone; the leader would go on sending us there.
                place.leave_replica(self._clock.now_ms())
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
            chunk = Chunk(want, records, aborted, self._config)
        except KafkaError as error:
            self.fail(RequestRefused.for_partition(error.code, want.partition, None, error.message))
            self._again_later(want.partition, want.turn)
            return
        if chunk.next_offset is None:
            self._on_torn(want, len(records))
            return
        self.positions.fetched(
            want.partition, chunk.next_offset, chunk.last_epoch, want.leader_epoch
        )
        self.chunks.append(chunk)
        self.arrived.set()

    def _on_torn(self, want: Wanted, size_bytes: int) -> None:
        """Not one batch is whole: the broker cut the first at the limit (LOG-13)."""
        if not self.positions.grow_limit(want.partition):
            self.fail(
                RequestRefused.for_partition(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    want.partition,
                    message=f"the batch at offset {want.offset} exceeds {size_bytes} bytes, "
                    "which is all that response_bytes_max allows",
                )
            )
            self.positions[want.partition].hold()

    def _on_error(self, want: Wanted, code: ErrorCode, connection: Connection) -> None:
        where = want.partition
        place = place_asked(self.positions, *want[:3])
        if place is None:
            return
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            known = self._cluster.metadata.partition(where)
            is_of_leader = known is not None and known.leader_epoch == want.leader_epoch
            if place.chunk_count == 0 and is_of_leader and not want.is_of_replica:
                self._reset(where, want.offset)
            else:
                # What is buffered is still good, and a follower, or who was leader, may have less:
                # asked again, the leader will say it afterwards.
                self._failed(want)
            return
        if code.refresh_metadata or code is ErrorCode.UNKNOWN_LEADER_EPOCH:
            self._cluster.mark_stale()
        if not (code.retriable or code in PASSING):
            self.fail(RequestRefused.for_partition(code, where, str(connection.address)))
        self._failed(want)

    def _reset(self, where: TopicPartition, offset: int | None) -> None:
        """There is no position, or it is out of range: do what the policy says."""
        timestamp = RESET_TIMESTAMPS.get(self._config.offset_reset)
        if timestamp is not None:
            self.positions.seek_timestamp(where, timestamp)
            self.drop_stale_chunks()
            self.wake()
            return
        self.fail(NoOffset(where, offset))
        # Until the application seeks: asking again could only say the same.
        self.positions[where].hold()

    def _truncated(self, where: TopicPartition, end: int) -> None:
        """The new leader's log went another way before the position: go on where it did."""
        place = self.positions[where]
        offset = place.fetch_offset if place.offset is None else place.offset
        if self._config.offset_reset == "none":
            self.fail(LogTruncated(where, offset, end))
            self.positions[where].hold()
            return
        logger.warning(
            "%s-%d: the leader's log differs from offset %d on, and offset %d was reached: "
            "committed records were lost",
            *where,
            end,
            place.fetch_offset,
        )
        self.positions.seek(where, min(offset, end))
        self.drop_stale_chunks()

    def _replaced(self, where: TopicPartition) -> None:
        """The topic was made again: nothing of what was read is in the log that is there now."""
        if self._config.offset_reset == "none":
            self._truncated(where, 0)
        else:
            self._reset(where, self.positions[where].offset)

    def _again_later(self, where: TopicPartition, turn: int) -> None:
        place = self.positions.get(where)
        if place is not None and place.turn == turn:
            delay_ms = self._config.retry_backoff.delay_ms(
                place.failures + 1, self._random.random()
            )
            self.positions.delay(where, self._clock.now_ms() + delay_ms)

    def fail(self, error: ClientError) -> None:
        """Let the application hear of it, once, however often it happens before it does."""
        if all(str(known) != str(error) for known in self._failures):
            self._failures.append(error)
        self.arrived.set()

    def crash(self, failure: BaseException) -> None:
        """The consumer cannot go on."""
        logger.error("the consumer stops: %s", failure, exc_info=failure)
        self._failures.append(failure)
        self.arrived.set()

    async def _look_up(self) -> None:
        failed = await look_up(
            self._router, self.positions, self._config.isolation, self._clock.now_ms()
        )
        self.arrived.set()
        for where, turn, error in failed:
            may_pass = isinstance(error, TransportError) or (
                isinstance(error, RequestRefused) and error.retriable
            )
            if not may_pass:
                self.fail(error)
            self._again_later(where, turn)


def session_of(sessions: Sessions, node_id: int, connection: Connection) -> FetchSession:
    """The session of that connection: another one may lead to a broker that was restarted."""
    known = sessions.get(node_id)
    if known is None or known[0] is not connection:
        known = sessions[node_id] = connection, FetchSession()
    return known[1]
