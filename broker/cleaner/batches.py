"""What is left of each batch when a log is compacted, as the bytes to write. Pure.

    the record, or batch                               stays
    newest of its key, with a value                    yes
    newest of its key, without one (a tombstone)       until the horizon of its batch
    older than another of its key                      no
    without a key                                      no
    of an aborted transaction                          no
    marker of a transaction that has left a batch      yes
    marker of one that has left none                   until the horizon of its batch
    last batches of a live producer                    as empty batches (hazard S-24)
    last batch of the new segment                      as an empty batch

The horizon is written into a batch by the first run that could have removed something (KIP-534,
hazard S-23): a reader that is slower than ``delete.retention.ms`` starts anew. A batch keeps its
offsets, its sequence and its epoch whatever it loses (FMT-32). A segment's last batch stays so that
its end is known: recovery takes a gap between two segments for a lost end.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ottla.broker.cleaner.rewrite import empty_batch, placeholder, rewrite
from ottla.broker.cleaner.scan import scan_records
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.control import read_control_type
from ottla.protocol.records.record import record_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.broker.cleaner.offset_map import KeyMap
    from ottla.broker.cleaner.scan import RecordSpan
    from ottla.broker.cleaner.transactions import Aborted, CleanedTransactions
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch


# Told apart by identity: no batch is that short.
_AS_IT_IS = b"as it is"


class LiveProducer(NamedTuple):
    """A producer that the replica knows: the last offsets of its batches that it remembers."""

    producer_epoch: int
    last_offsets: tuple[int, ...]


class Horizons(NamedTuple):
    """Wall clock ms: what a batch is given now, and up to when horizons have passed."""

    next_ms: int
    passed_ms: int


@dataclass(slots=True)
class CleaningCounts:
    """What one group of segments came to; the counters are of the whole group."""

    rows: list[Aborted] = field(default_factory=list)
    records_read: int = 0
    records_kept: int = 0
    markers_dropped: int = 0
    is_changed: bool = False


class Survival:
    """Judges every batch of a log from its start, in order. Lives for one run."""

    __slots__ = (
        "_horizons",
        "_key_map",
        "_producers",
        "_transactions",
        "end_offset",
        "kept",
        "map_bytes",
    )

    def __init__(
        self,
        key_map: KeyMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LiveProducer],
        horizons: Horizons,
    ) -> None:
        self._key_map = key_map
        self._transactions = transactions
        self._producers = producers
        self._horizons = horizons
        self.end_offset = key_map.end_offset
        self.map_bytes = key_map.size_bytes
        self.kept = CleaningCounts()

    def start_group(self) -> None:
        """What is judged from now on belongs to another segment."""
        self.kept = CleaningCounts()

    def judge(self, batch: RecordBatch, *, is_last: bool) -> Buffer | None:
        """The bytes that take the batch's place, None for nothing. ``is_last`` in its segment.

        The batch's checksum was checked. Raises KafkaError for records that cannot be read."""
        self.kept.records_read += batch.record_count
        remains = self._judge_control(batch) if batch.is_control else self._judge_data(batch)
        if remains is _AS_IT_IS:
            return batch.view
        if remains is None and is_last:
            remains = placeholder(batch)
        assert remains is None or remains[:8] == batch.view[:8], (
            "a batch keeps its offsets (FMT-32)"
        )
        assert self.kept.records_kept <= self.kept.records_read
        if remains is None or remains != batch.view:
            self.kept.is_changed = True
        return remains

    def _judge_control(self, batch: RecordBatch) -> bytes | None:
        if batch.record_count and read_control_type(batch) is None:
            # Nothing that concerns a partition's data; who wrote it may still want it.
            self.kept.records_kept += 1
            return _AS_IT_IS
        ends_nothing, row = self._transactions.end(batch)
        if row is not None:
            self.kept.rows.append(row)
        is_settled = batch.base_offset < self.end_offset and ends_nothing
        if not batch.record_count and is_settled:
            return None
        if not is_settled or self._is_last_word(batch):
            self.kept.records_kept += batch.record_count
            return _AS_IT_IS
        if not batch.has_delete_horizon:
            self.kept.records_kept += 1
            data = record_bytes(batch)
            return rewrite(batch, data, list(scan_records(batch, data)), self._horizons.next_ms)
        if batch.base_timestamp > self._horizons.passed_ms:
            self.kept.records_kept += 1
            return _AS_IT_IS
        assert ends_nothing, "its transaction would be open for ever (S-22)"
        self.kept.markers_dropped += 1
        return None

    def _is_last_word(self, batch: RecordBatch) -> bool:
        """Whether only this marker tells the epoch of a live producer, and so fences older ones."""
        producer = self._producers.get(batch.producer_id)
        return (
            producer is not None
            and not producer.last_offsets
            and producer.producer_epoch == batch.producer_epoch
        )

    def _judge_data(self, batch: RecordBatch) -> bytes | None:
        is_aborted = self._transactions.is_aborted(batch)
        if batch.base_offset >= self.end_offset:
            self.kept.records_kept += batch.record_count
            return _AS_IT_IS
        spans: list[RecordSpan] = []
        data = b""
        horizon_ms = None
        if not is_aborted and batch.record_count:
            data = record_bytes(batch)
            spans, has_tombstone = self._survivors(batch, data)
            if has_tombstone and not batch.has_delete_horizon:
                horizon_ms = self._horizons.next_ms
        self.kept.records_kept += len(spans)
        if spans:
            if len(spans) == batch.record_count and horizon_ms is None:
                return _AS_IT_IS
            return rewrite(batch, data, spans, horizon_ms)
        producer = self._producers.get(batch.producer_id)
        if producer is not None and batch.last_offset in producer.last_offsets:
            return empty_batch(batch) if batch.record_count else _AS_IT_IS
        return None

    def _survivors(self, batch: RecordBatch, data: bytes) -> tuple[list[RecordSpan], bool]:
        """The records that stay, and whether there is a tombstone among them."""
        is_superseded, base_offset = self._key_map.is_superseded, batch.base_offset
        drops_tombstones = (
            batch.has_delete_horizon and batch.base_timestamp <= self._horizons.passed_ms
        )
        spans: list[RecordSpan] = []
        has_tombstone = False
        for span in scan_records(batch, data):
            key = span.key
            if key is None or is_superseded(key, base_offset + span.offset_delta):
                continue
            if span.is_tombstone:
                if drops_tombstones:
                    continue
                has_tombstone = True
            spans.append(span)
        assert len(spans) <= batch.record_count, "a run only takes records away"
        return spans, has_tombstone


def note_batch(
    key_map: KeyMap, transactions: CleanedTransactions, batch: RecordBatch, from_offset: int
) -> bool:
    """Take a batch of the dirty part into the map; False if the map is full.

    Neither markers nor aborted records replace anything. Raises KafkaError."""
    if batch.next_offset <= from_offset:
        # Cleaned before; only the state of transactions is wanted.
        _meet(transactions, batch)
        return True
    if _meet(transactions, batch) or not batch.record_count:
        key_map.pass_over(batch.next_offset)
        return True
    return key_map.note(batch, record_bytes(batch))


def _meet(transactions: CleanedTransactions, batch: RecordBatch) -> bool:
    """Show the batch; whether none of its records count."""
    if batch.is_control:
        transactions.end(batch)
        return True
    return transactions.is_aborted(batch)


def corrupt(batch: RecordBatch) -> KafkaError:
    """For a batch whose bytes are not those that were appended: nothing may be made of it."""
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"the checksum of the batch at offset {batch.base_offset} does not match",
    )
