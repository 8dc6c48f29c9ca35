"""What consumers of many partitions have read to the end, and the answers that stay the same.

A consumer without a session says the same of a thousand partitions in each request, and expects
each in each answer. One that is at the high watermark rests: its piece of the request has an
encoded answer, until the partition ends that. Then the consumer's waiting request looks again. HOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.purgatory import WaitKey

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ottla.broker.engine.context import ClientPeer
    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.partitions.partition import PartitionRuntime

# Of all consumers together; each takes about half a kilobyte. What finds no place is read again.
ENTRIES_MAX = 100_000


class ReadersAtRest:
    """Owned by the reads of one broker: what is remembered, by connection."""

    def __init__(self, waiting: Purgatory, entries_max: int = ENTRIES_MAX) -> None:
        self.waiting = waiting
        self._entries_max = entries_max
        self.count = 0
        self._by_peer: dict[ClientPeer, ReaderMemory] = {}

    def of(self, peer: ClientPeer) -> ReaderMemory:
        """What that connection has at rest."""
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
        """Whether one more may be remembered."""
        return self.count < self._entries_max


class ReaderMemory:
    """Of one connection, by topic as long as any partition of it rests: topics come and go while a
    connection lives. ``key`` is released when anything has ended its rest."""

    __slots__ = ("_topics", "all", "key")

    def __init__(self, readers: ReadersAtRest) -> None:
        self.all = readers
        self.key = WaitKey("a consumer's partitions at rest")
        self._topics: dict[Hashable, RestingTopic] = {}

    def topic(self, named: Hashable) -> RestingTopic:
        """What rests of a topic, by what names it: version and isolation level belong to it."""
        found = self._topics.get(named)
        return RestingTopic(self, named) if found is None else found

    def keep(self, topic: RestingTopic) -> bool:
        """A partition of it begins to rest; False if another request has what rests of it."""
        return self._topics.setdefault(topic.named, topic) is topic

    def drop(self, topic: RestingTopic) -> None:
        """Nothing of it rests any more."""
        del self._topics[topic.named]

    def close(self) -> None:
        """The connection has gone."""
        for topic in list(self._topics.values()):
            for one in list(topic.resting.values()):
                one.end()
        assert not self._topics, "partitions would remember a consumer that has gone"


class RestingTopic:
    """The partitions of one topic that rest: by the piece of a request, and by index."""

    __slots__ = ("answers", "memory", "named", "resting")

    def __init__(self, memory: ReaderMemory, named: Hashable) -> None:
        self.memory = memory
        self.named = named
        # Only of what rests: what is found here may be answered as it is.
        self.answers: dict[bytes, bytes] = {}
        self.resting: dict[int, ReaderAtRest] = {}

    def rest(self, partition: PartitionRuntime, piece: bytes, answer: bytes) -> bool:
        """Remember the answer until anything happens; whether there is room for it."""
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
        """It rests from now on."""
        topic = self._topic
        topic.resting[self._partition.partition.partition] = self
        topic.answers[self.piece] = answer
        topic.memory.all.count += 1
        self._partition.readers[self] = None

    def end(self) -> None:
        """Anything has happened: the answer is another one."""
        topic, memory = self._topic, self._topic.memory
        assert topic.resting.pop(self._partition.partition.partition) is self
        del topic.answers[self.piece]
        del self._partition.readers[self]
        memory.all.count -= 1
        if not topic.resting:
            memory.drop(topic)
        memory.all.waiting.release(memory.key)
