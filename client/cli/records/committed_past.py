"""Which groups have committed past a record, and when: read from ``__consumer_offsets``. Pure.

The topic is compacted: of older commits only the last one is left. So a first commit past the
record counts as the very first only if a commit before the record is still there.
"""

from __future__ import annotations

from struct import Struct, error, unpack_from

from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

_SHORT = Struct(">h").unpack_from
# Versions of the key that hold a commit; others hold a group's members.
_COMMIT_KEYS = (0, 1)
_WITH_EPOCH = 3


class GroupCommit(NamedTuple):
    """One commit of one partition's position."""

    group: str
    where: TopicPartition
    offset: int
    time_ms: int


class CommitPast(NamedTuple):
    """The first known commit of a group past a record. ``is_first``: there was none before it."""

    offset: int
    time_ms: int
    is_first: bool


def read_commit(key: bytes | None, value: bytes | None) -> GroupCommit | None:
    """The commit in a record of the topic; None for other records and for removed commits."""
    if key is None or value is None:
        return None
    try:
        if _SHORT(key)[0] not in _COMMIT_KEYS:
            return None
        group, position = _text(key, 2)
        topic, position = _text(key, position)
        (partition,) = unpack_from(">i", key, position)
        (version, offset) = unpack_from(">hq", value)
        position = 10 + (4 if version >= _WITH_EPOCH else 0)
        _metadata, position = _text(value, position)
        (time_ms,) = unpack_from(">q", value, position)
    except (error, UnicodeDecodeError):
        return None
    return GroupCommit(group, TopicPartition(topic, partition), offset, time_ms)


def _text(data: bytes, position: int) -> tuple[str, int]:
    (size,) = _SHORT(data, position)
    end = position + 2 + max(size, 0)
    return data[position + 2 : end].decode(), end


class CommitsPast:
    """Collects commits, in the order of the topic's partition, for one record."""

    def __init__(self, where: TopicPartition, offset: int) -> None:
        self._where = where
        self._offset = offset
        self._before: set[str] = set()
        self.groups: dict[str, CommitPast] = {}

    def add(self, commit: GroupCommit) -> None:
        """Take in one commit."""
        if commit.where != self._where:
            return
        if commit.offset <= self._offset:
            # The group went back: its next commit past the record counts.
            self.groups.pop(commit.group, None)
            self._before.add(commit.group)
        elif commit.group not in self.groups:
            is_first = commit.group in self._before
            self.groups[commit.group] = CommitPast(commit.offset, commit.time_ms, is_first)
