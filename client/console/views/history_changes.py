"""States of partitions and brokers, and the changes between two of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class SeenPartition(NamedTuple):
    """One partition at some moment.

    Attributes:
        leader: The leader's id; -1 for none.
        leader_epoch: Its epoch.
        replicas: The ids of all replicas.
        isr: The ids of those in sync.
        end: The high watermark; None if it is unknown.
        stable: The last stable offset; None if it is unknown.
        log_ends: The ends of the replicas' logs, in the order of ``replicas``; None for unknown
            ones; empty while no page shows the partition.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    end: int | None
    stable: int | None = None
    log_ends: tuple[int | None, ...] = ()

    @property
    def roles(self) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        """The fields that elections, reassignments and the ISR change."""
        return self[:4]

    @property
    def held_back(self) -> int:
        """How many offsets an open transaction holds back; 0 without one, or if unknown."""
        if self.end is None or self.stable is None:
            return 0
        return max(0, self.end - self.stable)


class SeenBrokers(NamedTuple):
    """The live brokers and the controller's id, -1 for none."""

    brokers: frozenset[int]
    controller: int


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))


def broker_changes(old: SeenBrokers, new: SeenBrokers) -> list[str]:
    """Return the changes of the brokers, as sentences."""
    found = []
    if gone := old.brokers - new.brokers:
        found.append(f"left the cluster: broker {_listed(gone)}")
    if joined := new.brokers - old.brokers:
        found.append(f"joined the cluster: broker {_listed(joined)}")
    if new.controller != old.controller:
        name = "no broker" if new.controller < 0 else f"broker {new.controller}"
        found.append(f"{name} is the controller")
    return found


def partition_changes(old: SeenPartition, new: SeenPartition) -> list[str]:
    """Return the changes of a partition, as sentences."""
    found = []
    if new.leader != old.leader and new.leader < 0:
        found.append("the partition has no leader")
    elif (new.leader, new.leader_epoch) != (old.leader, old.leader_epoch):
        found.append(f"broker {new.leader} leads in epoch {new.leader_epoch}")
    if gone := set(old.isr) - set(new.isr):
        found.append(f"left the ISR: {_listed(gone)}")
    if joined := set(new.isr) - set(old.isr):
        found.append(f"joined the ISR: {_listed(joined)}")
    if new.replicas != old.replicas:
        found.append(f"the replicas are {', '.join(map(str, new.replicas))}")
    if old.end is not None and new.end is not None and new.end < old.end:
        found.append(f"the end went back from {old.end} to {new.end}")
    return found + _transaction_changes(old, new)


def _transaction_changes(old: SeenPartition, new: SeenPartition) -> list[str]:
    if old.stable is None or new.stable is None:
        return []
    if not old.held_back and new.held_back:
        return [f"an open transaction holds the stable offset at {new.stable}"]
    if old.held_back and not new.held_back:
        return [f"no transaction is open any more, the stable offset is {new.stable}"]
    if new.held_back and new.stable > old.stable:
        return [f"a transaction has ended; the next open one begins at {new.stable}"]
    return []
