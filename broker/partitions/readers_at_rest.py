"""Caches the answers for consumers that have read many partitions to the end.

A consumer without a session repeats a thousand partitions in each request and expects each of them
in each answer. A partition that the consumer has read to the high watermark rests: its bytes in the
request map to an encoded answer, until the partition changes. Then the consumer's waiting request
checks again. HOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.purgatory import WaitKey

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ottla.broker.engine.context import ClientPeer
    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.partitions.partition import PartitionRuntime

# Limit for all consumers; each entry takes about half a kilobyte. Partitions above it are read each
# time.
ENTRIES_MAX = 100_000


class ReadersAtRest:
    """Owned by the reads of one broker: the partitions at rest, by connection."""

    def __init__(self, waiting: Purgatory, entries_max: int = ENTRIES_MAX) -> None:
        self.waiting = waiting
        self._entries_max = entries_max
        self.count = 0
        self._by_peer: dict[ClientPeer, ReaderMemory] = {}

    def of(self, peer: ClientPeer) -> ReaderMemory:
        """Return the partitions at rest of that connection."""
        memory = self._by_peer.get(peer)
        if memory is None:
            memory = self._by_peer[peer] = ReaderMemory(self)
            peer.on_close(lambda: self._forget(peer))
        return memory

    def _forget(self, peer: ClientPeer) -> None:
        memory = self._by_peer.pop(peer, None)
        if memory is not None:
            memory.close()

    @property
    def has_room(self) -> bool:
        """Whether one more partition can be cached."""
        return self.count < self._entries_max


class ReaderMemory:
    """Partitions at rest of one connection, by topic; a topic without any is removed.

    ``key`` is released when one of them ends its rest."""

    __slots__ = ("_topics", "all", "key")

    def __init__(self, readers: ReadersAtRest) -> None:
        self.all = readers
        self.key = WaitKey("a consumer's partitions at rest")
        self._topics: dict[Hashable, RestingTopic] = {}

    def topic(self, named: Hashable) -> RestingTopic:
        """Return a topic's partitions at rest; the key contains version and isolation level."""
        found = self._topics.get(named)
        return RestingTopic(self, named) if found is None else found

    def keep(self, topic: RestingTopic) -> bool:
        """Keep a topic of which a partition comes to rest; False if another request keeps it."""
        return self._topics.setdefault(topic.named, topic) is topic

    def drop(self, topic: RestingTopic) -> None:
        """Remove a topic whose last partition ended its rest."""
        del self._topics[topic.named]

    def close(self) -> None:
        """The connection has closed."""
        for topic in list(self._topics.values()):
            for one in list(topic.resting.values()):
                one.end()
        assert not self._topics, "partitions would remember a consumer that has gone"


class RestingTopic:
    """The partitions of one topic at rest: by their bytes in the request, and by index."""

    __slots__ = ("answers", "memory", "named", "resting")

    def __init__(self, memory: ReaderMemory, named: Hashable) -> None:
        self.memory = memory
        self.named = named
        # Only partitions at rest: an entry found here can be answered as it is.
        self.answers: dict[bytes, bytes] = {}
        self.resting: dict[int, ReaderAtRest] = {}

    def rest(self, partition: PartitionRuntime, piece: bytes, answer: bytes) -> bool:
        """Cache the answer until the partition changes; return whether there is room for it."""
        index = partition.partition.partition
        known = self.resting.get(index)
        if known is not None:
            known.end()
        if not self.memory.all.has_room or not self.memory.keep(self):
            return False
        ReaderAtRest(self, partition, piece).begin(answer)
        return True


class ReaderAtRest:
    """One partition that a consumer has read to its high watermark."""

    __slots__ = ("_partition", "_topic", "piece")

    def __init__(self, topic: RestingTopic, partition: PartitionRuntime, piece: bytes) -> None:
        self._topic = topic
        self._partition = partition
        self.piece = piece

    def begin(self, answer: bytes) -> None:
        """Start the rest."""
        topic = self._topic
        topic.resting[self._partition.partition.partition] = self
        topic.answers[self.piece] = answer
        topic.memory.all.count += 1
        self._partition.readers[self] = None

    def end(self) -> None:
        """The partition has changed, and so has its answer."""
        topic, memory = self._topic, self._topic.memory
        assert topic.resting.pop(self._partition.partition.partition) is self
        del topic.answers[self.piece]
        del self._partition.readers[self]
        memory.all.count -= 1
        if not topic.resting:
            memory.drop(topic)
        memory.all.waiting.release(memory.key)
