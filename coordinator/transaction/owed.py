"""Tracks transaction markers that partitions still need, and the broker each must go to.

An order has the markers that end one transaction: the same one for each partition. Its key is the
transactional id, coordinator epoch and token, so that responses about an earlier end of the same
transactional id are not mistaken for it (hazard T-14). It ends when every partition has its marker,
has refused it for good or is deleted, or when one has seen a newer coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ottla.coordinator.transaction.effects import WriteMarkers
    from ottla.protocol.ids import TopicPartition

PARTITIONS_PER_PARCEL_MAX = 1_000
FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED
"""A newer coordinator has been there: nothing of this order is wanted."""
REFUSED = ErrorCode.INVALID_PRODUCER_EPOCH
"""A newer producer has been in that partition, and perhaps in no other."""


class Parcel(NamedTuple):
    """Markers sent to one broker together, at most one order per producer id."""

    number: int
    node_id: int
    content: tuple[tuple[Order, tuple[TopicPartition, ...]], ...]


class Order:
    """One transaction's markers. ``open``: the partitions without their marker, each with its
    location: the broker in whose queue it is, the parcel it is in, or None. ``refused``: those that
    will not have it."""

    __slots__ = ("coordinator_epoch", "is_over", "markers", "on_end", "open", "owner", "refused")

    def __init__(
        self,
        owner: object,
        coordinator_epoch: int,
        markers: WriteMarkers,
        on_end: Callable[[tuple[TopicPartition, ...]], object],
    ) -> None:
        """``on_end(refused)`` notifies the owner; each order has one owner."""
        self.owner = owner
        self.coordinator_epoch = coordinator_epoch
        self.markers = markers
        self.on_end = on_end
        self.open: dict[TopicPartition, int | Parcel | None] = dict.fromkeys(markers.partitions)
        assert len(self.open) == len(markers.partitions), "one marker for each partition"
        self.refused: list[TopicPartition] = []
        self.is_over = False

    @property
    def key(self) -> tuple[str, int, int]:
        markers = self.markers
        return markers.transactional_id, self.coordinator_epoch, markers.token


class Ended(NamedTuple):
    """An order that has ended and is no longer tracked. ``refused``: the partitions without a
    marker or with an unknown outcome."""

    order: Order
    refused: tuple[TopicPartition, ...]


class OwedMarkers:
    """One per broker. ``leader_of`` returns the broker for a partition's markers, None if it has no
    leader. Each order that ends is returned once; the caller notifies its owner."""

    def __init__(self, leader_of: Callable[[TopicPartition], int | None]) -> None:
        self._leader_of = leader_of
        self._orders: dict[tuple[str, int, int], Order] = {}
        self._by_partition: dict[TopicPartition, dict[Order, None]] = {}
        # By broker; None for markers of partitions without a leader.
        self._queues: dict[int | None, dict[Order, dict[TopicPartition, None]]] = {}
        self._last_parcel = 0

    # ---- what is owed ----

    @property
    def order_count(self) -> int:
        """The number of transactions whose markers are not all written."""
        return len(self._orders)

    @property
    def marker_count(self) -> int:
        """The number of markers that are not known to be written."""
        return sum(len(order.open) for order in self._orders.values())

    @property
    def destinations(self) -> list[int]:
        """The brokers with queued markers."""
        return sorted(node_id for node_id in self._queues if node_id is not None)

    def has_for(self, node_id: int) -> bool:
        """Whether the broker has queued markers."""
        return node_id in self._queues

    @property
    def has_homeless(self) -> bool:
        """Whether some markers are neither queued for a broker nor sent to one."""
        return None in self._queues

    @property
    def homeless(self) -> set[TopicPartition]:
        """The partitions of those markers."""
        queue = self._queues.get(None, {})
        return {partition for waiting in queue.values() for partition in waiting}

    def add(self, order: Order) -> list[Ended]:
        """Add an order; it ends at once if it has no partitions."""
        assert order.key not in self._orders, "a token names one order"
        assert not order.is_over
        self._orders[order.key] = order
        for partition in order.open:
            self._by_partition.setdefault(partition, {})[order] = None
            self._place(order, partition, self._leader_of(partition))
        return self._ended([order])

    def forget(self, owner: object) -> None:
        """Drop all orders of an owner."""
        for order in [one for one in self._orders.values() if one.owner is owner]:
            self._drop(order)

    # ---- to whom ----

    def route(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Re-read the leaders of these partitions, or of all, and requeue their markers. A marker
        sent to a broker that no longer leads is queued for the new leader as well."""
        for partition in list(self._by_partition) if partitions is None else partitions:
            orders = self._by_partition.get(partition)
            leader = self._leader_of(partition) if orders else None
            for order in orders or ():
                place = order.open[partition]
                if isinstance(place, Parcel):
                    if leader is not None and leader != place.node_id:
                        self._place(order, partition, leader)
                elif place != leader:
                    self._unqueue(order, partition)
                    self._place(order, partition, leader)

    def take(self, node_id: int, order_limit: int | None = None) -> Parcel | None:
        """The next parcel for that broker; None if nothing is queued."""
        queue = self._queues.get(node_id)
        if not queue:
            return None
        content: list[tuple[Order, tuple[TopicPartition, ...]]] = []
        producer_ids: set[int] = set()
        left = PARTITIONS_PER_PARCEL_MAX
        for order, waiting in list(queue.items()):
            if order.markers.producer_id in producer_ids:
                # Responses name only the producer id.
                continue
            if content and (len(waiting) > left or len(content) == order_limit):
                break
            assert not order.is_over, "an order that has ended is in no queue"
            producer_ids.add(order.markers.producer_id)
            content.append((order, tuple(waiting)))
            left -= len(waiting)
            del queue[order]
        if not queue:
            del self._queues[node_id]
        self._last_parcel += 1
        parcel = Parcel(self._last_parcel, node_id, tuple(content))
        for order, partitions in content:
            order.open.update(dict.fromkeys(partitions, parcel))
        return parcel

    # ---- what has become of them ----

    def answered(
        self, parcel: Parcel, errors: Mapping[tuple[int, TopicPartition], ErrorCode]
    ) -> list[Ended]:
        """Apply the response to a parcel, by producer id and partition. A marker that is missing
        or failed is queued nowhere until ``route`` is called."""
        ended = []
        for order, partitions in parcel.content:
            if order.is_over:
                continue
            found = {one: errors.get((order.markers.producer_id, one)) for one in partitions}
            if FENCED in found.values():
                ended.append(Ended(order, (*order.refused, *order.open)))
                self._drop(order)
                continue
            for partition, error in found.items():
                if partition not in order.open:
                    continue
                if error is ErrorCode.NONE:
                    # Even if it was queued for another leader meanwhile: it is committed.
                    self._done(order, partition)
                elif order.open[partition] is not parcel:
                    # Queued for another leader, whose response counts.
                    continue
                elif error is REFUSED:
                    order.refused.append(partition)
                    self._done(order, partition)
                else:
                    self._place(order, partition, None)
            ended += self._ended([order])
        return ended

    def lost(self, parcel: Parcel) -> None:
        """The parcel got no response."""
        self.answered(parcel, {})

    def gone(self, partition: TopicPartition) -> list[Ended]:
        """The partition is deleted, and its markers are no longer needed."""
        orders = list(self._by_partition.get(partition, ()))
        for order in orders:
            self._done(order, partition)
        return self._ended(orders)

    # ---- inside ----

    def _place(self, order: Order, partition: TopicPartition, leader: int | None) -> None:
        assert partition in order.open, "a second marker would be sent"
        order.open[partition] = leader
        self._queues.setdefault(leader, {}).setdefault(order, {})[partition] = None

    def _unqueue(self, order: Order, partition: TopicPartition) -> None:
        node_id = order.open[partition]
        if isinstance(node_id, Parcel):
            return
        queue = self._queues[node_id]
        waiting = queue[order]
        del waiting[partition]
        if not waiting:
            del queue[order]
        if not queue:
            del self._queues[node_id]

    def _done(self, order: Order, partition: TopicPartition) -> None:
        assert not order.is_over
        self._unqueue(order, partition)
        del order.open[partition]
        orders = self._by_partition[partition]
        del orders[order]
        if not orders:
            del self._by_partition[partition]

    def _drop(self, order: Order) -> None:
        for partition in list(order.open):
            self._done(order, partition)
        order.is_over = True
        del self._orders[order.key]

    def _ended(self, orders: Iterable[Order]) -> list[Ended]:
        ended = [order for order in orders if not order.open]
        for order in ended:
            self._drop(order)
        return [Ended(order, tuple(order.refused)) for order in ended]
