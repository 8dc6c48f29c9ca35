"""Transaction markers that are owed to partitions, and to which broker each is to go now.

An order is what ends one transaction: the same marker for each of its partitions. It is known by
transactional id, coordinator epoch and token, so that nothing which is said of an earlier end of
the same transactional id is taken for this one's (hazard T-14). It is over when every partition
has its marker, has refused it for good or exists no more, or when one has seen a newer coordinator.
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
    """Markers on their way to one broker together; no two of them are of one producer id."""

    number: int
    node_id: int
    content: tuple[tuple[Order, tuple[TopicPartition, ...]], ...]


class Order:
    """One transaction's markers. ``open``: the partitions that lack theirs, each with the place of
    its marker: the broker in whose queue it is, the parcel it is in, or none. ``refused``: those
    that will not have it."""

    __slots__ = ("coordinator_epoch", "is_over", "markers", "on_end", "open", "owner", "refused")

    def __init__(
        self,
        owner: object,
        coordinator_epoch: int,
        markers: WriteMarkers,
        on_end: Callable[[tuple[TopicPartition, ...]], object],
    ) -> None:
        """``on_end(refused)`` is for whoever tells the owner; each order has one owner."""
        self.owner = owner
        self.coordinator_epoch = coordinator_epoch
        self.markers = markers
        self.on_end = on_end
        self.open: dict[TopicPartition, int | Parcel | None] = dict.fromkeys(markers.partitions)
        self.refused: list[TopicPartition] = []
        self.is_over = False

    @property
    def key(self) -> tuple[str, int, int]:
        markers = self.markers
        return markers.transactional_id, self.coordinator_epoch, markers.token


class Ended(NamedTuple):
    """Nothing is owed any more of this order, of which nobody knows after this. ``refused``: the
    partitions that will not have their marker, or of which that is not known."""

    order: Order
    refused: tuple[TopicPartition, ...]


class OwedMarkers:
    """One per broker. ``leader_of`` tells the broker to which a partition's markers go now, None
    where there is none. Orders that end are given back for somebody to tell, once each."""

    def __init__(self, leader_of: Callable[[TopicPartition], int | None]) -> None:
        self._leader_of = leader_of
        self._orders: dict[tuple[str, int, int], Order] = {}
        self._by_partition: dict[TopicPartition, dict[Order, None]] = {}
        # By broker; None for what can go nowhere for the moment.
        self._queues: dict[int | None, dict[Order, dict[TopicPartition, None]]] = {}
        self._last_parcel = 0

    # ---- what is owed ----

    @property
    def order_count(self) -> int:
        """Transactions whose markers are not all written."""
        return len(self._orders)

    @property
    def marker_count(self) -> int:
        """Markers that are not known to be written."""
        return sum(len(order.open) for order in self._orders.values())

    @property
    def destinations(self) -> list[int]:
        """The brokers for which something waits to be taken."""
        return sorted(node_id for node_id in self._queues if node_id is not None)

    def has_for(self, node_id: int) -> bool:
        """Whether something waits to be taken for that broker."""
        return node_id in self._queues

    @property
    def has_homeless(self) -> bool:
        """Whether some markers are neither waiting for a broker nor on their way to one."""
        return None in self._queues

    @property
    def homeless(self) -> set[TopicPartition]:
        """The partitions of those markers."""
        queue = self._queues.get(None, {})
        return {partition for waiting in queue.values() for partition in waiting}

    def add(self, order: Order) -> list[Ended]:
        """Owe the markers of an order; it is over at once if there are none."""
        assert order.key not in self._orders, "a token names one order"
        self._orders[order.key] = order
        for partition in order.open:
            self._by_partition.setdefault(partition, {})[order] = None
            self._place(order, partition, self._leader_of(partition))
        return self._ended([order])

    def forget(self, owner: object) -> None:
        """Nobody wants the orders of that owner any more."""
        for order in [one for one in self._orders.values() if one.owner is owner]:
            self._drop(order)

    # ---- to whom ----

    def route(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Look again where markers are to go: those of these partitions, or all. What is on its way
        to a broker that does not lead any more is sent to the leader, too."""
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
        """What is to go to that broker now."""
        queue = self._queues.get(node_id)
        if not queue:
            return None
        content: list[tuple[Order, tuple[TopicPartition, ...]]] = []
        producer_ids: set[int] = set()
        left = PARTITIONS_PER_PARCEL_MAX
        for order, waiting in list(queue.items()):
            if order.markers.producer_id in producer_ids:
                # Answers name the producer id alone.
                continue
            if content and (len(waiting) > left or len(content) == order_limit):
                break
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
        """Take in the answer to a parcel, by producer id and partition. What is not in it, or has
        failed, is in no place until somebody routes it."""
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
                    # Also when it is on its way to another leader by now: it is committed.
                    self._done(order, partition)
                elif order.open[partition] is not parcel:
                    # On its way to another leader, who knows better.
                    continue
                elif error is REFUSED:
                    order.refused.append(partition)
                    self._done(order, partition)
                else:
                    self._place(order, partition, None)
            ended += self._ended([order])
        return ended

    def lost(self, parcel: Parcel) -> None:
        """There is no answer to the parcel."""
        self.answered(parcel, {})

    def gone(self, partition: TopicPartition) -> list[Ended]:
        """The partition does not exist any more: nobody will ever read what its marker would
        end."""
        orders = list(self._by_partition.get(partition, ()))
        for order in orders:
            self._done(order, partition)
        return self._ended(orders)

    # ---- inside ----

    def _place(self, order: Order, partition: TopicPartition, leader: int | None) -> None:
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
