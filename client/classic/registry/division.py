"""Divides the partitions of a group among its members: the nine steps of the documents. Pure.

Every member computes the same division from the same reading of the tree. Remainders go to the
first consumers, one partition each, so that shares differ by at most one for each topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client.classic.registry.layout import RegistrySlot
    from ottla.client.classic.registry.subscription import TopicCount


class GroupImage(NamedTuple):
    """One reading of the tree.

    ``members`` without those whose znode cannot be read; ``topics`` are the names of all topics;
    ``slots`` are sorted, for each topic that this member consumes and that exists."""

    members: Mapping[str, TopicCount]
    topics: Sequence[str]
    slots: Mapping[str, tuple[RegistrySlot, ...]]


def thread_id(consumer_id: str, number: int) -> str:
    """Return the name of one stream of a member, as owner znodes contain it."""
    return f"{consumer_id}-{number}"


def threads_by_topic(image: GroupImage) -> dict[str, list[str]]:
    """Return the streams of all members for each topic, sorted."""
    found: dict[str, list[str]] = {}
    for consumer_id, count in image.members.items():
        for topic, streams in count.streams_of(image.topics).items():
            names = found.setdefault(topic, [])
            names.extend(thread_id(consumer_id, number) for number in range(streams))
    return {topic: sorted(names) for topic, names in found.items()}


def share(slots: Sequence[RegistrySlot], index: int, count: int) -> Sequence[RegistrySlot]:
    """Return the part of the ``index``-th of ``count`` consumers."""
    each, rest = divmod(len(slots), count)
    first = index * each + min(index, rest)
    return slots[first : first + each + (index < rest)]


def division(image: GroupImage, consumer_id: str) -> dict[RegistrySlot, str]:
    """Return the partitions that this member must own, each with its stream."""
    own = image.members.get(consumer_id)
    if own is None:
        return {}
    owned: dict[RegistrySlot, str] = {}
    threads = threads_by_topic(image)
    for topic, streams in sorted(own.streams_of(image.topics).items()):
        names = threads[topic]
        for name in (thread_id(consumer_id, number) for number in range(streams)):
            part = share(image.slots.get(topic, ()), names.index(name), len(names))
            owned.update(dict.fromkeys(part, name))
    return owned
