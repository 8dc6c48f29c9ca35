"""The shards of one coordinator: maps an id to its shard on this broker.

The coordinator of a group or a transactional id is the leader of partition ``abs(hash(id)) mod n``
of the internal topic of its kind (GRP-01, TXN-05). This file finds the shard and keeps a shard for
each led partition; shards.py runs them.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from ottla.broker.coordinating.shards import PendingReply, Shard, ShardState
from ottla.broker.coordinating.shards_machine import M
from ottla.broker.engine.deferred import DeferredAnswer
from ottla.coordinator.hashing import partition_for
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ottla.broker.coordinating.shards import ShardParts
    from ottla.broker.engine.purgatory import OperationOwner
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.coordinator.effects import Moment, RequestOrigin
    from ottla.coordinator.metadata.delta import MetadataDelta

logger = logging.getLogger("ottla.coordinator")


class Coordinator(Generic[M]):
    """For groups or for transactional ids. ``make_machine`` returns an empty machine."""

    def __init__(
        self,
        topic: str,
        metadata: MetadataCache,
        make_machine: Callable[[], M],
        parts: ShardParts,
    ) -> None:
        self.topic = topic
        self._metadata = metadata
        self._make_machine = make_machine
        self._parts = parts
        self._shards: dict[int, Shard[M]] = {}
        self._has_started = False
        metadata.subscribe(self._on_metadata)

    # ---- roles ----

    def trust_clock(self, trusts_wall: Callable[[], bool]) -> None:
        """Set the function that tells whether the wall clock can be trusted (hazard S-18)."""
        self._parts.stalls.trusts_wall = trusts_wall

    def moment(self) -> Moment:
        """Return the current time in the machines' form."""
        return self._parts.stalls.moment()

    def start(self, partitions: Iterable[PartitionRuntime]) -> None:
        """Begin to load the partitions led here. The broker already serves: a million offsets take
        seconds to load, in which clients get COORDINATOR_LOAD_IN_PROGRESS."""
        self._has_started = True
        for partition in partitions:
            self.on_role(partition)

    def on_role(self, partition: PartitionRuntime) -> None:
        """A partition on this broker has taken or lost a role."""
        topic, index = partition.partition
        if topic != self.topic or not self._has_started:
            return
        is_leader = partition.check_leader_epoch(-1) is ErrorCode.NONE
        shard = self._shards.get(index)
        if shard is not None:
            is_same = shard.partition is partition
            if is_leader and is_same and partition.replica.leads_since(shard.leader_epoch):
                shard.leader_epoch = partition.leader_epoch
                return
            del self._shards[index]
            shard.end(ErrorCode.NOT_COORDINATOR)
        if is_leader:
            self._parts.stalls.start()
            shard = self._shards[index] = Shard(partition, self._make_machine, self._parts)
            shard.load()

    def close(self) -> None:
        """Answer every waiting request; the broker stops."""
        self._has_started = False
        self._parts.stalls.stop()
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            shard.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _on_metadata(self, delta: MetadataDelta) -> None:
        # Not for changed leaders and replicas: every shard compares all topics then.
        if delta.made_topics or delta.gone_topics:
            for shard in list(self._shards.values()):
                shard.on_topics_changed()

    # ---- asking ----

    def handle(
        self,
        key: str,
        request: Any,
        caller: RequestOrigin,
        refuse: Callable[[ErrorCode], Any],
    ) -> DeferredAnswer[Any]:
        """Return the answer of the id's machine to one request about that id.

        ``refuse`` makes the answer if no machine can be called."""
        later: DeferredAnswer[Any] = DeferredAnswer()
        shard, error = self.find(key)
        if shard is None:
            later.complete(refuse(error))
        else:
            shard.handle(request, caller, PendingReply(later, refuse))
        return later

    def handle_current(
        self,
        key: str,
        request: Any,
        caller: RequestOrigin,
        refuse: Callable[[ErrorCode], Any],
        owner: OperationOwner | None,
    ) -> DeferredAnswer[Any]:
        """Like ``handle``, but never from outdated memory: for requests whose outdated answers
        would break exactly-once. ``owner`` is the connection; the question ends with it."""
        later: DeferredAnswer[Any] = DeferredAnswer()
        shard, error = self.find(key)
        if shard is None:
            later.complete(refuse(error))
        elif self._parts.barriers.is_open(shard.partition):
            shard.handle(request, caller, PendingReply(later, refuse))
        else:
            answer = partial(_ask, shard, request, caller, PendingReply(later, refuse))
            self._parts.barriers.wait(shard.partition, answer, owner)
        return later

    def listing(self, request: Any) -> Iterator[Any]:
        """Yield the entries of all machines here, one by one; None for one that is filtered out, an
        ``ErrorCode`` for a shard that is loading."""
        for shard in self.shards:
            error, machine = shard.check(), shard.machine
            if error is ErrorCode.NOT_COORDINATOR:
                # The partition is moving to another broker, which will list it.
                continue
            if error is not ErrorCode.NONE:
                yield error
                continue
            for listed in self._list(machine, request):
                if shard.machine is not machine:
                    yield ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    break
                yield listed

    def _list(self, machine: M, request: Any) -> Iterator[Any]:
        return machine.listing(request)

    def find(self, key: str) -> tuple[Shard[M] | None, ErrorCode]:
        """Return the shard for the id, or why there is none."""
        topic = self._metadata.topic(self.topic)
        if topic is None or not topic.partitions:
            return None, ErrorCode.NOT_COORDINATOR
        shard = self._shards.get(partition_for(key, len(topic.partitions)))
        if shard is None:
            return None, ErrorCode.NOT_COORDINATOR
        error = shard.check()
        return (shard, error) if error is ErrorCode.NONE else (None, error)

    def shard_of(self, partition: PartitionRuntime) -> Shard[M] | None:
        """Return the shard of the partition, in any state."""
        shard = self._shards.get(partition.partition.partition)
        return shard if shard is not None and shard.partition is partition else None

    @property
    def shards(self) -> list[Shard[M]]:
        """The shards by partition, for diagnostics."""
        return [shard for _index, shard in sorted(self._shards.items())]

    @property
    def is_loading(self) -> bool:
        return any(shard.state is ShardState.LOADING for shard in self._shards.values())


def _ask(
    shard: Shard[Any], request: Any, caller: RequestOrigin, asked: PendingReply, is_current: bool
) -> None:
    """Call the shard after the barrier; it may have been reloaded or ended meanwhile."""
    error = shard.check() if is_current else ErrorCode.NOT_COORDINATOR
    if error is not ErrorCode.NONE:
        asked.later.complete(asked.refuse(error))
        return
    try:
        shard.handle(request, caller, asked)
    except Exception as bug:
        # The shard has answered every request that waited for its machine, including ``asked``. The
        # caller, which proved this leadership, serves other requests, too.
        logger.error("%s-%d: %r", *shard.partition.partition, bug, exc_info=bug)
