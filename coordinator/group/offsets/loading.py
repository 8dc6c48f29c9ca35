"""Loads committed offsets from the log, a million in a second.

Few keys differ in more than the partition: the bytes before it lead straight to the table for the
offset, and neither they nor most values are ever decoded.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from ottla.coordinator.effects import NOBODY, LogRecord
from ottla.coordinator.failures import Skipped
from ottla.coordinator.group.common.records import (
    decode_key,
    decode_offset,
    is_plain_offset,
)
from ottla.coordinator.group.offsets.ledger import OffsetLedger, PendingOffset, Values
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.coordinator.effects import Writer

_Target = tuple[Values, str, str]
"""Where a commit goes, and the names of its group and topic."""

_PARTITION = Struct(">i")
_OFFSET_COMMITS = (b"\0\0", b"\0\1")


class OffsetLoading:
    """Lives as long as its shard; keeps no targets once that is loaded."""

    def __init__(self, ledger: OffsetLedger) -> None:
        self.skipped = Skipped()
        self._ledger = ledger
        self._open_groups = ledger.open_groups
        self._targets: dict[bytes, _Target] = {}

    def replay(self, record: LogRecord, writer: Writer = NOBODY) -> bool:
        """Apply a record; False for one that is not about offsets. HOT."""
        key, value = record
        target = self._targets.get(key[:-4])
        if target is None or not (value is None or is_plain_offset(value)):
            if key[:2] not in _OFFSET_COMMITS:
                return False
            target = self._find_target(key, value)
            if target is None:
                return True
        values, group_id, topic = target
        (partition,) = _PARTITION.unpack_from(key, len(key) - 4)
        if writer.producer_id >= 0 or group_id in self._open_groups:
            topic_partition = TopicPartition(topic, partition)
            change = self._ledger.add(PendingOffset(group_id, topic_partition, value, writer))
            self._ledger.on_committed([change])
        elif value is not None:
            values[partition] = value
        else:
            values.pop(partition, None)
        return True

    def finish(self) -> None:
        """The log has been read to its end."""
        self._targets.clear()
        self._ledger.drop_empty()

    def _find_target(self, key: bytes, value: bytes | None) -> _Target | None:
        """The target of the key; None, and counted, if key or value cannot be read."""
        try:
            read = decode_key(key)
            is_known = value is None or decode_offset(value) is not None
        except RemoteProtocolError as error:
            self.skipped.add_corrupt(str(error))
            return None
        assert read is not None, "offset commits are known"
        if not is_known:
            self.skipped.unknown_count += 1
            return None
        target = self._targets.get(key[:-4])
        if target is None:
            # From here on a deletion must keep empty tables that targets refer to.
            self._ledger.keeps_empty = True
            values = self._ledger.find_values(read.group_id, read.name)
            target = self._targets[key[:-4]] = values, read.group_id, read.name
        return target
