"""What this broker knows of the cluster: one image, replaced whenever the controller says so.

Everything that answers clients reads here and nowhere else. The image comes from UpdateMetadata,
fenced by controller epoch; settings come from the store (read ``config_watch.py``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.coordinator.controller.names import find_name_fault
from ottla.coordinator.metadata.changes import FULL_UPDATE, Change, ConfigGone, changes_of_update
from ottla.coordinator.metadata.delta import MetadataDelta, apply_changes
from ottla.coordinator.metadata.image import NO_LEADER, Entity, MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.update_metadata import UpdateMetadataResponse
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ottla.coordinator.metadata.image import PartitionState, TopicImage
    from ottla.protocol.ids import Uuid
    from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
    from ottla.protocol.ports import Clock


class ListenerNode(NamedTuple):
    """A live broker, as clients of one listener reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class _Waiter(NamedTuple):
    holds: Callable[[MetadataImage], bool]
    future: asyncio.Future[bool]


class MetadataCache:
    """Owned by the server, lives as long as the broker. Listeners hear of each change after the
    image has been replaced, in the order in which they subscribed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: list[Callable[[MetadataDelta], object]] = []
        self._waiters: list[_Waiter] = []
        # Listener -> its nodes; asked for by every client request about topics.
        self._nodes: dict[str, tuple[ListenerNode, ...]] = {}
        self.image = MetadataImage("")
        self.is_complete = False
        # Whether a partition lies on a data directory of this broker that has failed.
        self.is_offline_here: Callable[[str, int], bool] = _never

    # ---- changing ----

    def begin(self, cluster_id: str, controller_epoch: int) -> None:
        """Set what is known from the store before any controller has spoken.

        No controller of an earlier epoch is listened to, not even after a restart (C-01)."""
        self.image = MetadataImage(cluster_id, controller_epoch=controller_epoch)
        self._nodes.clear()

    def apply(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Take in what the controller says."""
        if request.controller_epoch < self.image.controller_epoch:
            return UpdateMetadataResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        changes = list(changes_of_update(self.image, request))
        delta = apply_changes(self.image, changes)
        # The settings of a topic go with it; one that was made again has its own by now.
        gone = sorted({one.name for one in delta.gone_topics} - delta.after.topics.keys())
        if gone:
            forgotten = [ConfigGone(Entity("topics", name)) for name in gone]
            delta = apply_changes(self.image, [*changes, *forgotten])
        self._enter(delta)
        if request.type == FULL_UPDATE:
            self.is_complete = True
            self._wake_waiters()
        return UpdateMetadataResponse()

    def take(self, changes: Iterable[Change]) -> None:
        """Make the changes at once and tell the listeners."""
        self._enter(apply_changes(self.image, changes))

    def _enter(self, delta: MetadataDelta) -> None:
        if delta.is_empty:
            return
        self.image = delta.after
        if delta.brokers or delta.gone_brokers:
            self._nodes.clear()
        for listener in list(self._listeners):
            listener(delta)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        for waiter in list(self._waiters):
            if not waiter.future.done() and waiter.holds(self.image):
                waiter.future.set_result(True)

    # ---- hearing ----

    def subscribe(self, listener: Callable[[MetadataDelta], object]) -> None:
        """Call with every later difference. A listener must not change the metadata itself."""
        self._listeners.append(listener)

    async def wait_until_complete(self, timeout_ms: float) -> bool:
        """Whether a controller has told this broker everything before the time is up.

        By then it has also given this broker's partitions their roles: it says where everything
        is only after that."""
        return await self.wait_for(lambda _image: self.is_complete, timeout_ms)

    async def wait_for(self, holds: Callable[[MetadataImage], bool], timeout_ms: float) -> bool:
        """Whether the condition holds now or at some change before the time is up."""
        if holds(self.image):
            return True
        if timeout_ms <= 0:
            return False
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(holds, future)

        def give_up() -> None:
            if not future.done():
                future.set_result(False)

        timer = self._clock.call_at(self._clock.now_ms() + timeout_ms, give_up)
        self._waiters.append(waiter)
        try:
            return await future
        finally:
            timer.cancel()
            self._waiters.remove(waiter)

    # ---- asking ----

    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    @property
    def controller_id(self) -> int:
        """-1 while none is known."""
        return self.image.controller_id

    def topic(self, name: str) -> TopicImage | None:
        return self.image.topics.get(name)

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self.image.names.get(topic_id)

    def topic_names(self) -> list[str]:
        """All of them, sorted."""
        return sorted(self.image.topics)

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        return self.image.partition(topic, partition)

    def leader_of(self, topic: str, partition: int) -> tuple[int, int]:
        """Leader and leader epoch; (-1, -1) for an unknown partition."""
        state = self.image.partition(topic, partition)
        return (NO_LEADER, -1) if state is None else (state.leader, state.leader_epoch)

    def endpoints(self, listener: str) -> tuple[ListenerNode, ...]:
        """The live brokers that have the listener, by id."""
        nodes = self._nodes.get(listener)
        if nodes is None:
            nodes = self._nodes[listener] = self._read_nodes(listener)
        return nodes

    def config(self, entity_type: str, name: str) -> Mapping[str, str]:
        """What was set for the entity, without defaults."""
        return self.image.config(entity_type, name)

    def error_for_missing_topic(self, name: str) -> ErrorCode:
        """Why a topic is not in the answer."""
        if name in self.image.topics:
            return ErrorCode.LEADER_NOT_AVAILABLE
        if find_name_fault(name) is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def error_for_missing(self, topic: str, partition: int) -> ErrorCode:
        """Why a partition cannot be served here: it is elsewhere, or nowhere."""
        if self.image.partition(topic, partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.is_offline_here(topic, partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _read_nodes(self, listener: str) -> tuple[ListenerNode, ...]:
        nodes = []
        for node_id in sorted(self.image.brokers):
            broker = self.image.brokers[node_id]
            end = broker.endpoint(listener)
            if end is not None:
                nodes.append(ListenerNode(node_id, end.host, end.port, broker.rack))
        return tuple(nodes)


def _never(_topic: str, _partition: int) -> bool:
    return False
