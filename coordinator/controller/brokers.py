"""Compares broker registrations by id and generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.coordinator.metadata.image import BrokerRegistration


class BrokerDifference(NamedTuple):
    """``started``: live brokers with a generation the controller has not handled yet; each also
    means that the earlier generation failed (R-23, C-15). ``moved``: other end points only."""

    started: tuple[BrokerRegistration, ...]
    moved: tuple[BrokerRegistration, ...]
    gone: tuple[int, ...]
    # Started brokers that may have lost the end of their logs. Compared with the last handled
    # generation: one in between may have begun after a loss and ended unseen.
    unclean_ids: frozenset[int]

    @property
    def restarted_ids(self) -> frozenset[int]:
        return frozenset(broker.node_id for broker in self.started)


def compare_brokers(
    known: Mapping[int, BrokerRegistration],
    read: Sequence[BrokerRegistration],
    seen_generations: Mapping[int, int],
) -> BrokerDifference:
    """The differences between known and read registrations."""
    started, moved = [], []
    for broker in sorted(read, key=lambda one: one.node_id):
        if seen_generations.get(broker.node_id) != broker.generation:
            started.append(broker)
        elif known.get(broker.node_id) != broker:
            moved.append(broker)
    gone = sorted(known.keys() - {broker.node_id for broker in read})
    unclean_ids = frozenset(
        broker.node_id
        for broker in started
        if not broker.has_kept_its_data(seen_generations.get(broker.node_id, -1))
    )
    difference = BrokerDifference(tuple(started), tuple(moved), tuple(gone), unclean_ids)
    assert unclean_ids <= difference.restarted_ids
    assert difference.restarted_ids.isdisjoint(gone)
    return difference
