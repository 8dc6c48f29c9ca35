"""Which names a topic may have, and which are taken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.coordinator.metadata.image import TopicImage

# A partition's directory is named "<topic>-<partition>" and may get a suffix while it is deleted:
# 249 characters leave room for that in the 255 that file systems allow.
NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def find_name_fault(name: str) -> str | None:
    """Why no topic can have this name; None if one can."""
    if not name:
        return "the topic name is empty"
    if name in (".", ".."):
        return f"a topic cannot be named {name!r}"
    if len(name) > NAME_LENGTH_MAX:
        return f"the topic name has {len(name)} characters, more than {NAME_LENGTH_MAX}"
    if _LEGAL.match(name) is None:
        return (
            f"the topic name {name!r} has characters other than ASCII letters, digits, '.', '_' "
            "and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Names with the same key would share their metrics, where '.' is written as '_'."""
    return name.replace(".", "_")


class TopicTally:
    """Names and numbers of all topics, kept up: counting ten thousand takes longer than making
    one."""

    def __init__(self, topics: Mapping[str, TopicImage]) -> None:
        self.topic_count = 0
        self.partition_count = 0
        self.replica_count = 0
        # Topics that others made may share a key.
        self._names: dict[str, set[str]] = {}
        for topic in topics.values():
            self._count(topic, 1)
            self._names.setdefault(collision_key(topic.name), set()).add(topic.name)

    def name_of(self, key: str) -> str | None:
        """A topic with that collision key."""
        return min(self._names[key]) if key in self._names else None

    def replace(self, old: TopicImage | None, new: TopicImage | None) -> None:
        """One topic came, went or is different."""
        assert old is None or new is None or old.name == new.name
        if old is not None:
            self._count(old, -1)
            key = collision_key(old.name)
            self._names[key].discard(old.name)
            if not self._names[key]:
                del self._names[key]
        if new is not None:
            self._count(new, 1)
            self._names.setdefault(collision_key(new.name), set()).add(new.name)

    def _count(self, topic: TopicImage, sign: int) -> None:
        self.topic_count += sign
        self.partition_count += sign * len(topic.partitions)
        self.replica_count += sign * sum(len(state.replicas) for state in topic.partitions.values())
        assert self.partition_count >= 0, "what was counted goes once"
