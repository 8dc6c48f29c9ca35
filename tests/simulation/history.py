"""Evidence of one run, from clients and disks, which the checkers judge.

Everything carries a place in one real-time order. A fact (this value is at this offset) binds for
ever, unless a later loss of power took unsynced bytes: then only what was durable by then binds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Partition = tuple[str, int]


class Fate(Enum):
    """The outcome of a write, as far as it is known. A timeout is UNKNOWN, never FAILED."""

    OPEN = auto()
    ACKNOWLEDGED = auto()
    FAILED = auto()
    UNKNOWN = auto()


@dataclass(slots=True)
class Write:
    """One value that a producer tried to write; it is never tried under another identity.

    ``durable``: the topic promises an fsync before the acknowledgement (flush.messages=1)."""

    producer: str
    number: int
    partition: Partition
    value: bytes
    invoked: int
    fate: Fate = Fate.OPEN
    offset: int | None = None
    attempted: int = 0
    completed: int = 0
    idempotent: bool = True
    durable: bool = False

    def settle(self, fate: Fate, order: int, offset: int | None = None) -> None:
        """The producer has learned, or given up learning, what became of it."""
        assert self.fate is Fate.OPEN
        self.fate, self.completed, self.offset = fate, order, offset


class Read(NamedTuple):
    """A consumer was shown a value."""

    asked: int
    answered: int
    reader: str
    partition: Partition
    offset: int
    value: bytes


class Watermarks(NamedTuple):
    """A response told where the log begins and how far it is committed; -1 is "not told".

    ``promised``: DeleteRecords has answered; its log start holds for ever. What others say of the
    start may be news that is not on the disk yet, and goes when the process goes."""

    asked: int
    answered: int
    partition: Partition
    log_start: int
    high_watermark: int
    promised: bool = False


class Loss(NamedTuple):
    """Memory that was not on the disk went away; what is below these offsets did not."""

    order: int
    reason: str
    durable_ends: dict[Partition, int]


class Fact(NamedTuple):
    """A value that a client was told to be at an offset; it was true at some time between."""

    asked: int
    answered: int
    partition: Partition
    offset: int
    value: bytes
    witness: str
    durable: bool = False


@dataclass(slots=True)
class Exchange:
    """The correlation ids of one connection: of requests, in order, and of answers, in order."""

    name: str
    asked: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)


@dataclass(slots=True)
class FinalLog:
    """One partition as read from start to end when all was calm again."""

    start: int
    end: int
    records: list[tuple[int, bytes]]


@dataclass(slots=True)
class History:
    """Filled by clients while the world runs, read by checkers afterwards."""

    order: int = 0
    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    watermarks: list[Watermarks] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    finals: dict[Partition, FinalLog] = field(default_factory=dict)
    # Some of the records may have been removed on purpose.
    may_trim: bool = False
    # Partitions that could not be read at the end, and those of which the disk has lost pages
    # that it was asked to write: one broker alone cannot mend them and must not pretend to.
    offline: set[Partition] = field(default_factory=set)
    damaged: set[Partition] = field(default_factory=set)
    # How often a producer had skipped sequences, and renumbered what was unfinished.
    renumbered: int = 0
    surprises: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    def tick(self) -> int:
        """The next place in the real-time order."""
        self.order += 1
        return self.order

    def facts(self) -> Iterator[Fact]:
        """All that producers and consumers were told, in no order."""
        for write in self.writes:
            if write.fate is Fate.ACKNOWLEDGED and write.offset is not None:
                yield fact_of(write)
        for read in self.reads:
            yield Fact(
                read.asked, read.answered, read.partition, read.offset, read.value, read.reader
            )

    def restarted_since(self, order: int) -> bool:
        """Whether the broker was started after that moment."""
        return any(restart > order for restart in self.restarts)

    def durable_end(self, partition: Partition, order: int) -> int | None:
        """The offset from which on what was said at that time need not hold; None: all holds."""
        ends = [loss.durable_ends.get(partition, 0) for loss in self.losses if loss.order > order]
        return min(ends, default=None)

    def binds(self, fact: Fact) -> bool:
        """Whether the fact must still be true at the end."""
        if fact.durable:
            return True
        end = self.durable_end(fact.partition, fact.asked)
        return end is None or fact.offset < end


def fact_of(write: Write) -> Fact:
    """The fact that an acknowledgement with an offset proves."""
    assert write.offset is not None
    return Fact(
        write.attempted,
        write.completed,
        write.partition,
        write.offset,
        write.value,
        write.producer,
        write.durable,
    )
