"""Which brokers get the replicas of partitions.

With n brokers in their order, partition i starts at broker (start + i) mod n and its replicas
follow one after the other. When every broker has a rack, the order alternates between the racks,
and a rack gets a second replica only after each rack has one (KIP-36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.coordinator.metadata.image import BrokerRegistration


def broker_order(brokers: Mapping[int, BrokerRegistration]) -> list[int]:
    """Ids in the order in which partitions are dealt out to them."""
    columns: dict[object, list[int]] = {}
    for node_id, rack in _racks(brokers).items():
        columns.setdefault(rack, []).append(node_id)
    rounds = max((len(column) for column in columns.values()), default=0)
    order = [
        columns[rack][turn]
        for turn in range(rounds)
        for rack in columns
        if turn < len(columns[rack])
    ]
    assert sorted(order) == sorted(brokers)
    return order


def _racks(brokers: Mapping[int, BrokerRegistration]) -> dict[int, object]:
    """Broker -> rack, sorted by rack; as long as one has none, each broker is its own rack."""
    ids = sorted(brokers)
    racks = {node_id: brokers[node_id].rack for node_id in ids}
    if None in racks.values():
        return {node_id: node_id for node_id in ids}
    return {node_id: racks[node_id] for node_id in sorted(ids, key=lambda one: racks[one] or "")}


def place(
    brokers: Mapping[int, BrokerRegistration],
    partitions: Sequence[int],
    replication_factor: int,
    start: int,
) -> dict[int, tuple[int, ...]]:
    """Partition -> replicas, the preferred leader first."""
    order = broker_order(brokers)
    assert 0 < replication_factor <= len(order)
    racks = _racks(brokers)
    placed = {}
    for partition in partitions:
        first = (start + partition) % len(order)
        placed[partition] = _pick(order[first:] + order[:first], racks, replication_factor)
    return placed


def _pick(turn: Sequence[int], racks: Mapping[int, object], count: int) -> tuple[int, ...]:
    assert count <= len(turn), "the loop would not end"
    chosen: list[int] = []
    while len(chosen) < count:
        # One pass takes at most one broker of each rack.
        racks_taken: set[object] = set()
        for node_id in turn:
            if node_id not in chosen and racks[node_id] not in racks_taken and len(chosen) < count:
                chosen.append(node_id)
                racks_taken.add(racks[node_id])
    assert len(set(chosen)) == count, "a broker holds one replica of a partition"
    return tuple(chosen)


def find_assignment_fault(
    replicas: Sequence[int], known: Mapping[int, BrokerRegistration], replication_factor: int
) -> str | None:
    """Why a partition cannot have these replicas, as its topic's others have that many."""
    if not replicas:
        return "a partition without replicas"
    if len(set(replicas)) != len(replicas):
        return f"the same broker twice in {list(replicas)}"
    unknown = sorted(set(replicas) - known.keys())
    if unknown:
        return f"no live broker has id {unknown[0]}"
    if len(replicas) != replication_factor:
        return f"{len(replicas)} replicas where other partitions have {replication_factor}"
    return None


def too_few(factor: int, broker_count: int) -> str:
    """The refusal of a replication factor that exceeds the number of live brokers."""
    alive = "1 broker is" if broker_count == 1 else f"{broker_count} brokers are"
    return f"replication factor {factor}, but only {alive} alive"
