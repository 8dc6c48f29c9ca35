"""The znodes of a group in ZooKeeper, and the names of its partitions there. Pure.

The layout of 0.8 names a partition by its number. That of 0.7 names it ``broker-index``: the broker
is the first replica, and the index counts that broker's partitions of the topic from 0.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONSUMERS = "/consumers"


class RegistryLayout(Enum):
    """The version whose names and values a group's registry has."""

    V07 = "0.7"
    V08 = "0.8"


class RegistrySlot(NamedTuple):
    """One partition: its name in the registry, its number, and the broker of its first replica."""

    topic: str
    name: str
    partition: int
    broker: int = -1

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def slots_of(
    topic: str, replicas: Mapping[int, Sequence[int]], layout: RegistryLayout
) -> tuple[RegistrySlot, ...]:
    """A topic's partitions in the order in which they are divided.

    In the layout of 0.7 that is by broker, so that a consumer gets partitions of few brokers."""
    if layout is RegistryLayout.V08:
        return tuple(
            RegistrySlot(topic, str(one), one, _first(replicas[one])) for one in sorted(replicas)
        )
    by_broker: dict[int, list[int]] = {}
    for number in sorted(replicas):
        by_broker.setdefault(_first(replicas[number]), []).append(number)
    return tuple(
        RegistrySlot(topic, f"{broker}-{index}", number, broker)
        for broker in sorted(by_broker)
        for index, number in enumerate(by_broker[broker])
    )


def _first(replicas: Sequence[int]) -> int:
    return replicas[0] if replicas else -1


def ids(group: str) -> str:
    """The directory of the group's members."""
    return f"{CONSUMERS}/{group}/ids"


def offsets(group: str) -> str:
    """The directory of the group's committed offsets, by topic."""
    return f"{CONSUMERS}/{group}/offsets"


def member(group: str, consumer_id: str) -> str:
    """The ephemeral znode of a member."""
    return f"{ids(group)}/{consumer_id}"


def owner(group: str, slot: RegistrySlot) -> str:
    """The ephemeral znode of a partition's owner."""
    return f"{CONSUMERS}/{group}/owners/{slot.topic}/{slot.name}"


def offset(group: str, slot: RegistrySlot) -> str:
    """The persistent znode of a partition's committed offset."""
    return f"{CONSUMERS}/{group}/offsets/{slot.topic}/{slot.name}"


def parse_offset(data: bytes) -> int | None:
    """Return the committed offset; None if the value is not a number."""
    text = data.decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
