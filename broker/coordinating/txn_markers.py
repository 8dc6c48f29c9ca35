"""Sends the markers that end transactions to the leaders of their partitions, until all have them.

There is a queue per broker, and lanes that empty it, each a task with its own connection. One
lane is nearly always enough; another is opened when markers wait behind a slow response, for
example for a replica of one partition. A marker goes to the leader that the metadata names, again
and again, until a newer coordinator or producer ends that, or the partition is deleted. After a
newer producer the owner asks again.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.coordinating.txn_wire import errors_of, request_of
from ottla.coordinator.store.store import StoreError
from ottla.coordinator.transaction.owed import Order, OwedMarkers
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ottla.broker.engine.deferred import DeferredAnswer
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.membership.peers import Peers
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.metadata.delta import MetadataDelta
    from ottla.coordinator.transaction.effects import WriteMarkers
    from ottla.coordinator.transaction.owed import Ended, Parcel
    from ottla.protocol.ports import Clock, Timer
    from ottla.wire.connection import Connection

logger = logging.getLogger("ottla.coordinator")

# Below version 2 requests lack the version of the transaction, without which a late marker of one
# transaction ends the next (hazard T-16).
_WRITE_MARKERS = declare(
    ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest, WriteTxnMarkersResponse, 2, 2
)
RETRY_MS = 100.0
# A marker is written with acks=all; a replica that has died leaves the ISR within this time.
REQUEST_TIMEOUT_MS = 30_000.0
LANES_MAX = 4
SLOW_MS = 100.0


class MarkerParts(NamedTuple):
    """The dependencies of a sender.

    ``missing`` asks the metadata store itself which of these partitions do not exist; it raises
    StoreError or KafkaError. ``write_here`` writes markers to partitions that are led here."""

    node_id: int
    peers: Peers
    metadata: MetadataCache
    clock: Clock
    tasks: Tasks
    missing: Callable[[Iterable[TopicPartition]], Awaitable[set[TopicPartition]]]
    write_here: Callable[[WriteTxnMarkersRequest], DeferredAnswer[WriteTxnMarkersResponse]]


class _Lane:
    """One task that takes parcels from a queue and waits for their answers."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.is_busy = False
        self.connection: Connection | None = None
        self.task: asyncio.Task[None] | None = None


class MarkerSender:
    """Owned by the coordinator of transactions."""

    def __init__(self, parts: MarkerParts) -> None:
        self._parts = parts
        self._owed = OwedMarkers(self._leader_of)
        self._lanes: dict[int, list[_Lane]] = {}
        self._slow: dict[int, Timer] = {}
        self._retry: Timer | None = None
        self._is_looking = False
        self._is_closed = False
        self._last_error: dict[int, str] = {}
        # By owner and transactional id: partitions that refuse the end of a transaction.
        self._refused: dict[object, dict[str, tuple[TopicPartition, ...]]] = {}
        parts.metadata.subscribe(self._on_metadata)

    @property
    def owed(self) -> OwedMarkers:
        """Number of markers still to be written, for metrics."""
        return self._owed

    def send(
        self,
        owner: object,
        coordinator_epoch: int,
        markers: WriteMarkers,
        on_end: Callable[[tuple[TopicPartition, ...]], object],
    ) -> None:
        """Write the markers; calls ``on_end(refused)`` when all are written, unless the owner
        has been removed."""
        self._tell(self._owed.add(Order(owner, coordinator_epoch, markers, on_end)))
        self._go_on()

    def forget(self, owner: object) -> None:
        """Drop the orders of an owner that is no longer a coordinator."""
        self._owed.forget(owner)
        self._refused.pop(owner, None)

    def close(self) -> None:
        """Stop sending: the broker stops."""
        self._is_closed = True
        for node_id in list(self._lanes):
            self._close_lanes(node_id)
        for timer in (self._retry, *self._slow.values()):
            if timer is not None:
                timer.cancel()

    # ---- where to ----

    def _leader_of(self, partition: TopicPartition) -> int | None:
        leader, _epoch = self._parts.metadata.leader_of(*partition)
        return leader if leader in self._parts.metadata.image.brokers else None

    def _on_metadata(self, delta: MetadataDelta) -> None:
        for node_id in delta.gone_brokers:
            self._close_lanes(node_id)
        if not self._owed.order_count:
            return
        if delta.brokers or delta.gone_brokers:
            self._owed.route()
        else:
            self._owed.route(TopicPartition(one.topic, one.partition) for one in delta.partitions)
        self._go_on()

    def _go_on(self) -> None:
        """Check all pending markers again."""
        if self._is_closed:
            return
        for node_id in self._owed.destinations:
            self._wake(node_id)
        if self._retry is None and self._owed.has_homeless:
            due_ms = self._parts.clock.now_ms() + RETRY_MS
            self._retry = self._parts.clock.call_at(due_ms, self._on_retry)

    def _on_retry(self) -> None:
        self._retry = None
        self._owed.route()
        unknown = {one for one in self._owed.homeless if self._is_unknown(one)}
        if unknown and not self._is_looking:
            self._is_looking = True
            self._parts.tasks.spawn("partitions that owe markers", self._look(unknown))
        self._go_on()

    def _is_unknown(self, partition: TopicPartition) -> bool:
        metadata = self._parts.metadata
        return metadata.is_complete and metadata.partition(*partition) is None

    async def _look(self, partitions: set[TopicPartition]) -> None:
        """Ask the store which partitions exist, because a deleted partition needs no marker. This
        broker's metadata may be older than the partition, and an omitted marker would block its
        readers for ever."""
        try:
            missing = await self._parts.missing(partitions)
        except (StoreError, KafkaError) as error:
            logger.debug("cannot determine now whether partitions exist: %s", error)
            missing = set()
        finally:
            self._is_looking = False
        for partition in missing:
            if self._is_unknown(partition):
                self._tell(self._owed.gone(partition))

    # ---- lanes ----

    def _wake(self, node_id: int) -> None:
        lanes = self._lanes.setdefault(node_id, [])
        idle = next((lane for lane in lanes if not lane.is_busy), None)
        if idle is not None:
            idle.wake.set()
        elif not lanes:
            self._open_lane(node_id)
        elif node_id not in self._slow and len(lanes) < LANES_MAX:
            due_ms = self._parts.clock.now_ms() + SLOW_MS
            self._slow[node_id] = self._parts.clock.call_at(due_ms, partial(self._on_slow, node_id))

    def _on_slow(self, node_id: int) -> None:
        del self._slow[node_id]
        lanes = self._lanes.get(node_id, ())
        # More connections do not help to reach a broker that is unreachable.
        is_reached = any(lane.connection is not None for lane in lanes)
        is_slow = is_reached and all(lane.is_busy for lane in lanes)
        if is_slow and self._owed.has_for(node_id):
            self._open_lane(node_id)

    def _open_lane(self, node_id: int) -> None:
        lane = _Lane()
        lane.is_busy = True
        self._lanes[node_id].append(lane)
        is_own = node_id == self._parts.node_id
        run = self._run_own() if is_own else self._run(node_id, lane)
        lane.task = self._parts.tasks.spawn(f"markers to broker {node_id}", run)

    def _close_lanes(self, node_id: int) -> None:
        for lane in self._lanes.pop(node_id, ()):
            if lane.task is not None:
                lane.task.cancel()

    async def _run(self, node_id: int, lane: _Lane) -> None:
        try:
            while True:
                if not self._owed.has_for(node_id):
                    lane.is_busy = False
                    await lane.wake.wait()
                    lane.wake.clear()
                    lane.is_busy = True
                elif not await self._deliver(node_id, lane):
                    await self._parts.clock.sleep(RETRY_MS)
        finally:
            if lane.connection is not None:
                lane.connection.close("no markers are sent to that broker any more")

    async def _deliver(self, node_id: int, lane: _Lane) -> bool:
        """Send the markers; whether there was a response, or no marker to send."""
        parcel: Parcel | None = None
        response: WriteTxnMarkersResponse | None = None
        try:
            connection = lane.connection
            if connection is None or connection.closed:
                connection = lane.connection = await self._parts.peers.connect(
                    node_id, purpose="markers", request_timeout_ms=REQUEST_TIMEOUT_MS
                )
            # Not earlier: until it is sent, a marker follows its leader and coordinator.
            parcel = self._owed.take(node_id)
            if parcel is not None:
                response = await connection.send(_WRITE_MARKERS, request_of(parcel))
                self._last_error.pop(node_id, None)
        except (OSError, KafkaError, ClientError) as error:
            self._give_up(node_id, lane, error)
            return False
        finally:
            if parcel is not None:
                # Also when this lane ends: another lane sends its markers.
                self._take_in(parcel, response)
        return True

    def _give_up(self, node_id: int, lane: _Lane, error: Exception) -> None:
        if lane.connection is not None:
            # An abandoned request must not arrive after the next one.
            lane.connection.close("a request was given up")
            lane.connection = None
        if self._last_error.get(node_id) != str(error):
            self._last_error[node_id] = str(error)
            logger.info("broker %d does not take transaction markers: %s", node_id, error)

    async def _run_own(self) -> None:
        """Write to partitions that are led here: each transaction waits only for its own answer."""
        (lane,) = self._lanes[self._parts.node_id]
        while True:
            while (parcel := self._owed.take(self._parts.node_id, order_limit=1)) is not None:
                try:
                    answer = self._parts.write_here(request_of(parcel))
                except Exception as error:
                    # As over the wire: a bug fails this request only.
                    logger.error("markers were not written here", exc_info=error)
                    self._take_in(parcel, None)
                else:
                    answer.then(partial(self._take_in, parcel))
            lane.is_busy = False
            await lane.wake.wait()
            lane.wake.clear()
            lane.is_busy = True

    # ---- answers ----

    def _take_in(self, parcel: Parcel, response: WriteTxnMarkersResponse | None) -> None:
        if response is None:
            self._owed.lost(parcel)
        else:
            self._tell(self._owed.answered(parcel, errors_of(response)))
        self._go_on()

    def _tell(self, ended: Iterable[Ended]) -> None:
        for order, refused in ended:
            transactional_id = order.markers.transactional_id
            known = self._refused.setdefault(order.owner, {})
            if not refused:
                known.pop(transactional_id, None)
            elif known.get(transactional_id) != refused:
                # They are asked every second; an unchanged state is not logged.
                known[transactional_id] = refused
                logger.warning(
                    "the transaction of %s does not end in %s: a newer producer epoch was there",
                    transactional_id,
                    ", ".join(f"{topic}-{index}" for topic, index in refused),
                )
            order.on_end(refused)
