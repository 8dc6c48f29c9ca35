"""Brokers of a partition as a disk and a machine, and what goes between a leader and a follower."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.leading import ReplicaLimits
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.progress import FollowerFetch
from ottla.broker.replica.roles import LogBounds, Role
from ottla.protocol.errors import ErrorCode

LAG_MS = 100.0

Entry = tuple[int, int]
"""A record: the leader epoch it was written under, and a value that is used once."""


@dataclass
class Node:
    """A broker with its disk (log, saved epochs, saved watermark) and its machine."""

    node_id: int
    broker_epoch: int = 1
    log: list[Entry] = field(default_factory=list)
    saved_epochs: list[tuple[int, int]] = field(default_factory=list)
    saved_watermark: int | None = None
    min_insync: int = 1

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        history = ReplicaHistory()
        history.load_leader_epochs(self.saved_epochs)
        for offset, (epoch, _value) in enumerate(self.log):
            history.epochs.observe(epoch, offset)
        history.truncated(len(self.log))
        bounds = LogBounds(0, len(self.log), self.saved_watermark)
        limits = ReplicaLimits(self.min_insync, LAG_MS)
        self.replica = Replica(self.node_id, history, limits, bounds)

    def save(self) -> None:
        self.saved_epochs = list(self.replica.history.leader_epochs())
        self.saved_watermark = self.replica.high_watermark

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, which is what a follower says when it fetches."""
        return self.replica.history.epochs.epoch_at(len(self.log) - 1) if self.log else -1

    @property
    def visible(self) -> list[Entry]:
        """The entries that consumers may read."""
        return self.log[: self.replica.high_watermark]

    def produce(self, values: list[int], now_ms: float) -> None:
        """Append as the leader."""
        self.write([(self.replica.leader_epoch, value) for value in values])
        self.replica.on_appended(len(self.log), now_ms)

    def write(self, entries: list[Entry]) -> None:
        for epoch, value in entries:
            self.replica.history.epochs.observe(epoch, len(self.log))
            self.log.append((epoch, value))

    def cut(self, offset: int) -> None:
        del self.log[offset:]
        self.replica.history.truncated(offset)
        self.replica.on_cut(0, offset)


@dataclass(frozen=True)
class Fetched:
    """An answer to a follower's fetch, on its way."""

    broker_epoch: int
    leader_epoch: int
    offset: int
    entries: list[Entry]
    high_watermark: int
    cut_to: int | None


def fetch(follower: Node, leader: Node, count: int, now_ms: float) -> Fetched | None:
    """Ask a leader for what comes after the follower's log; None if it refuses."""
    replica = follower.replica
    end = len(follower.log)
    verdict = leader.replica.on_follower_fetch(
        FollowerFetch(
            follower.node_id,
            follower.broker_epoch,
            end,
            follower.last_epoch,
            replica.leader_epoch,
            0,
        ),
        now_ms,
    )
    assert verdict.error in (
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
    if verdict.error is not ErrorCode.NONE:
        return None
    cut_to = None
    if verdict.diverging is not None:
        cut_to = replica.history.epochs.truncation_for(verdict.diverging, end).offset
        assert cut_to < end, "the follower would ask for ever"
    return Fetched(
        follower.broker_epoch,
        replica.leader_epoch,
        end,
        leader.log[end : end + count] if cut_to is None else [],
        leader.replica.high_watermark,
        cut_to,
    )


def receive(follower: Node, answer: Fetched) -> None:
    """Take an answer in, unless the follower has moved on since it asked."""
    replica = follower.replica
    if (
        follower.broker_epoch != answer.broker_epoch
        or replica.role is not Role.FOLLOWER
        or replica.leader_epoch != answer.leader_epoch
        or len(follower.log) != answer.offset
    ):
        return
    if answer.cut_to is not None:
        follower.cut(answer.cut_to)
        return
    follower.write(answer.entries)
    replica.on_replicated(len(follower.log), answer.high_watermark, answer.leader_epoch)


def catch_up(follower: Node, leader: Node, now_ms: float) -> None:
    """Fetch until there is nothing left, and once more, which tells the leader."""
    for _ in range(10):
        answer = fetch(follower, leader, 100, now_ms)
        assert answer is not None
        receive(follower, answer)
