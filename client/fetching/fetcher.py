"""Fetches ahead: keeps a little data ready for every partition of a consumer.

One task pumps; each broker has at most one fetch in flight, and a second one for partitions that
have moved meanwhile. ``Positions`` decides which partitions to fetch. Fetched data waits in
``completed`` until the application takes it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.cluster.upkeep import Upkeep
from ottla.client.fetching.epoch_checks import EpochChecks, Reactions
from ottla.client.fetching.fetch_request import (
    FETCH,
    WantedPartition,
    build_request,
    parts_of,
    version_for,
)
from ottla.client.fetching.fetch_session import SESSION_ERRORS, ConsumerFetchSession
from ottla.client.fetching.fetch_slots import FetchSlot
from ottla.client.fetching.fetched import Arrivals
from ottla.client.fetching.missing_topics import Absences
from ottla.client.fetching.offsets import look_up
from ottla.client.fetching.positions import (
    by_source,
    leave_replica,
    position_asked,
    ready_of,
)
from ottla.client.process.tasks import guarded
from ottla.client.settings.config import Isolation
from ottla.protocol.errors import ErrorCode, error_code
from ottla.wire.errors import AnswerTooLarge, RequestRefused, TransportError

if TYPE_CHECKING:
    import asyncio

    from ottla.client.cluster.routing import Router
    from ottla.client.settings.config import ConsumerConfig
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.messages.fetch import FetchResponse
    from ottla.protocol.ports import Timer
    from ottla.wire.connection import Connection

    Sessions = dict[int, tuple[Connection, ConsumerFetchSession]]

logger = logging.getLogger(__name__)


class Fetcher(Arrivals):
    """Owned by one consumer."""

    def __init__(self, router: Router, config: ConsumerConfig) -> None:
        super().__init__(router, config)
        self._router = router
        self._absences = Absences(self._cluster.metadata)
        self._first, self._beside = (
            FetchSlot(self._cluster, "fetch"),
            FetchSlot(self._cluster, "fetch more"),
        )
        self._sessions: Sessions = {}
        self._upkeep = Upkeep(self._cluster, self.wake, self.crash)
        self._epoch_checks = EpochChecks(
            self._cluster,
            self.positions,
            Reactions(self._truncated, self._replaced, self._again_later, self.wake, self.crash),
        )
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to fetch the assigned partitions."""
        self._upkeep.run(self._run(), "consumer")

    async def stop(self) -> None:
        """End. Chunks that were not taken are dropped; positions stay."""
        await self._upkeep.stop()
        if self._timer is not None:
            self._timer.cancel()
        for slot in (self._first, self._beside):
            slot.pool.close()

    def receive_ahead(self) -> None:
        """Prepare for a pause of the event loop: see ``Connection.receive_ahead``."""
        self._first.pool.receive_ahead()
        self._beside.pool.receive_ahead()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._pump()
            await self._wake.wait()

    def _pump(self) -> None:
        now_ms = self._clock.now_ms()
        has_moved, self._has_moved = self._has_moved, False
        for partition in self.positions.without_position():
            self._reset(partition, None)
        if self.positions.to_look_up(now_ms):
            self._upkeep.start_job("offsets", self._look_up)
        by_node, leaderless = by_source(self.positions, self._cluster.metadata, now_ms)
        for partition in leaderless:
            self._absences.miss_partition(partition)
        for node_id, partitions in by_node.items():
            if has_moved or node_id not in self._first.in_flight:
                self._fetch_from(node_id, partitions, now_ms)
        if leaderless or (by_node and now_ms > self._cluster.fresh_until_ms):
            self._upkeep.refresh({where.topic for where in self.positions.partitions})
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        later_ms = self.positions.next_delay_ms(now_ms)
        if later_ms is not None:
            self._timer = self._clock.call_at(later_ms, self.wake)

    def _fetch_from(self, node_id: int, partitions: list[TopicPartition], now_ms: float) -> None:
        positions = self.positions
        ready = ready_of(positions, partitions, now_ms)
        if ready is None:
            # Moved partitions are checked again when there is room.
            self._has_moved = self._has_moved or node_id in self._first.in_flight
            return
        alone, slot = None, self._first
        if self._oversize.suspects:
            alone = self._oversize.alone(node_id, ready)
            ready = ready if alone is None else [alone]
        if node_id in slot.in_flight:
            ready, slot = slot.missed(node_id, ready, positions), self._beside
        if not ready or node_id in slot.in_flight:
            return
        connection = slot.pool.ready(node_id)
        if connection is None:
            on_failure = partial(leave_replica, self.positions, now_ms)
            self._upkeep.connect(node_id, on_failure, slot.pool)
            return
        wanted = []
        metadata = self._cluster.metadata
        by_leader = False
        for where in self._epoch_checks.passed(node_id, connection, ready):
            position, known = positions[where], metadata.partition(where)
            leader_id, leader_epoch = (
                (node_id, -1) if known is None else (known.leader_id, known.leader_epoch)
            )
            is_of_replica = leader_id != node_id
            by_leader = by_leader or now_ms < position.leader_only_until_ms
            offset, limit_bytes = position.fetch_offset, position.limit_bytes
            wanted.append(
                WantedPartition(
                    where, position.turn, offset, limit_bytes, leader_epoch, is_of_replica
                )
            )
        if not wanted:
            return
        is_first = slot is self._first
        # A session is one sequence of requests; the second fetch is outside of it.
        session = session_of(self._sessions, node_id, connection) if is_first else None
        request = build_request(wanted, metadata, self._config, session, by_leader=by_leader)
        if not is_first:
            wait_ms = int(slot.wait_ms(node_id, wanted))
            request.max_wait_ms = min(request.max_wait_ms, wait_ms)
        if alone is not None:
            # The other partitions wait for this one.
            request.max_wait_ms = 0
        version = version_for(connection, wanted, metadata)
        timeout_ms = self._config.request_timeout_ms + self._config.fetch_wait_ms
        future = connection.send(FETCH, request, version=version, timeout_ms=timeout_ms)
        slot.take(node_id, wanted)
        asked = slot, session or ConsumerFetchSession(), wanted
        on_answer = partial(self._on_answer, node_id, connection, asked)
        future.add_done_callback(guarded(on_answer, self.crash))

    # Answers.

    def _on_answer(
        self,
        node_id: int,
        connection: Connection,
        asked: tuple[FetchSlot, ConsumerFetchSession, list[WantedPartition]],
        future: asyncio.Future[FetchResponse],
    ) -> None:
        slot, session, wanted = asked
        slot.leave(node_id)
        self.wake()
        if future.cancelled():
            return
        failure = future.exception()
        if failure is not None:
            session.lost()
            if isinstance(failure, AnswerTooLarge):
                self._on_oversize(node_id, failure, wanted)
                return
            self._cluster.mark_stale()
            for want in wanted:
                self._failed(want)
            if not isinstance(failure, TransportError):
                self.crash(failure)
            return
        if self._oversize.suspects:
            self._oversize.answered(node_id, [want.partition for want in wanted])
        response = future.result()
        code = error_code(response.error_code)
        was_incremental = session.is_incremental
        session.answered(code, response.session_id)
        if code is not ErrorCode.NONE:
            if code in SESSION_ERRORS and was_incremental:
                # The next request has all partitions again, at once.
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
            if asked_for is not None and position_asked(self.positions, *asked_for[:3]) is not None:
                self._on_part(asked_for, part, connection)
        if is_empty:
            for want in wanted:
                if (position := position_asked(self.positions, *want[:3])) is not None:
                    is_committed = self._config.isolation is Isolation.READ_COMMITTED
                    position.came_dry(want.offset, position.end(is_committed=is_committed))

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


def session_of(sessions: Sessions, node_id: int, connection: Connection) -> ConsumerFetchSession:
    """Return the connection's session: a new connection may lead to a restarted broker."""
    known = sessions.get(node_id)
    if known is None or known[0] is not connection:
        known = sessions[node_id] = connection, ConsumerFetchSession()
    return known[1]
