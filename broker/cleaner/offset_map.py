"""The newest offset of every key in the dirty part of a log, within a budget of memory. Pure.

Kafka's offset map has slots of 24 bytes; a table of that kind in Python costs more time per record
than everything else together. A dictionary costs about 170 bytes per key of up to 31 bytes, so a
budget of 128 MiB reaches over 700,000 different keys per run. When it is full the run cleans as far
as it got, and the next one goes on from there.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.broker.cleaner.scan import scan_records

if TYPE_CHECKING:
    from ottla.protocol.records.batch import RecordBatch

_KEY_OVERHEAD_BYTES = 33 + 15  # the object's head, and what the allocator rounds up
_OFFSET_BYTES = 32
_NOTHING = -1


class KeyMap:
    """Lives for one run. Keys are fingerprints; see compaction_scan.py."""

    __slots__ = ("_budget_bytes", "_keys_bytes", "_latest", "end_offset")

    def __init__(self, budget_bytes: int, first_offset: int) -> None:
        self._budget_bytes = budget_bytes
        self._latest: dict[bytes, int] = {}
        self._keys_bytes = 0
        # Every record below it that counts has been noted, and none above.
        self.end_offset = first_offset

    def __len__(self) -> int:
        return len(self._latest)

    @property
    def size_bytes(self) -> int:
        """Memory held, measured for the table and computed for what it refers to."""
        return sys.getsizeof(self._latest) + self._keys_bytes + len(self._latest) * _OFFSET_BYTES

    @property
    def is_full(self) -> bool:
        return self.size_bytes > self._budget_bytes

    def note(self, batch: RecordBatch, data: bytes) -> bool:
        """Take in a batch's records, given uncompressed; False, and nothing of it, if full.

        The first batch is always taken, or a log with one large batch would never get clean.
        Raises KafkaError(CORRUPT_MESSAGE)."""
        if self._latest and self.is_full:
            return False
        latest, base_offset = self._latest, batch.base_offset
        added_bytes = 0
        for span in scan_records(batch, data):
            key = span.key
            if key is not None:
                if key not in latest:
                    added_bytes += len(key) + _KEY_OVERHEAD_BYTES
                latest[key] = base_offset + span.offset_delta
        self._keys_bytes += added_bytes
        assert batch.next_offset >= self.end_offset, "a key's newest offset is the last one noted"
        self.end_offset = batch.next_offset
        return True

    def pass_over(self, next_offset: int) -> None:
        """What lies before that offset and was not noted has no say: markers, aborted data."""
        assert next_offset >= self.end_offset
        self.end_offset = next_offset

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether a later record of the key is known."""
        return self._latest.get(key, _NOTHING) > offset
