"""What must hold of every transaction log and every answer, whatever came in between.

It knows the protocol by its effects alone: the records in the order of the log, the markers that
were asked for, and what producers were told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.coordinator.transaction.records import decode_key, decode_value
from ottla.coordinator.transaction.states import TransactionState
from tests.coordinator.transaction.scene import Producer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.coordinator.effects import LogRecord
    from ottla.coordinator.transaction.effects import WriteMarkers
    from ottla.coordinator.transaction.metadata import TransactionMetadata
    from ottla.protocol.ids import TopicPartition

IDLE = {"Empty", "CompleteCommit", "CompleteAbort"}
# Drawn by hand from the protocol, not from the table that is executed.
LEGAL = {
    (None, "Empty"),
    *((before, after) for before in IDLE for after in ("Empty", "Ongoing", "PrepareAbort")),
    ("Ongoing", "Ongoing"),
    ("Ongoing", "PrepareCommit"),
    ("Ongoing", "PrepareAbort"),
    ("PrepareCommit", "CompleteCommit"),
    ("PrepareAbort", "CompleteAbort"),
    *((before, None) for before in IDLE),
}


@dataclass
class Verdict:
    """How the transaction of one producer id and epoch ended."""

    is_commit: bool
    partitions: frozenset[TopicPartition]
    bumps: bool


@dataclass
class Oracle:
    """Told of every record that is committed, in order."""

    last: dict[str, TransactionMetadata] = field(default_factory=dict)
    # Of each producer id: whose it is, and its highest epoch.
    owners: dict[int, str] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    # The producer ids and epochs that had a transaction, and how it ended.
    begun: set[Producer] = field(default_factory=set)
    verdicts: dict[Producer, list[Verdict]] = field(default_factory=dict)
    # Which instance of a producer was given a producer id and epoch.
    holders: dict[Producer, int] = field(default_factory=dict)
    instances: int = 0
    marked: set[Producer] = field(default_factory=set)

    # The log.

    def on_committed(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            transactional_id = decode_key(record.key)
            assert transactional_id is not None
            self._on_record(transactional_id, record)

    def _on_record(self, transactional_id: str, record: LogRecord) -> None:
        before = self.last.get(transactional_id)
        label = None if before is None else before.state.label
        if record.value is None:
            assert (label, None) in LEGAL, f"deleted as {label}"
            del self.last[transactional_id]
            return
        after = decode_value(record.value)
        assert after is not None
        assert (label, after.state.label) in LEGAL, f"{label} to {after.state.label}"
        self._check_epoch(transactional_id, after)
        if before is not None:
            self._check_partitions(before, after)
        self.last[transactional_id] = after

    def _check_epoch(self, transactional_id: str, after: TransactionMetadata) -> None:
        owner = self.owners.setdefault(after.producer_id, transactional_id)
        assert owner == transactional_id, "a producer id belongs to two"
        highest = self.epochs.get(after.producer_id, -1)
        assert after.producer_epoch >= highest, "an epoch goes down"
        assert after.producer_epoch <= highest + 1, "an epoch is left out"
        self.epochs[after.producer_id] = after.producer_epoch

    def _check_partitions(self, before: TransactionMetadata, after: TransactionMetadata) -> None:
        if after.state is TransactionState.ONGOING:
            assert after.partitions >= before.partitions
            producer = Producer(after.producer_id, after.producer_epoch)
            # Hazard T-12: what ended with a raised epoch never goes on under the old one.
            assert not any(verdict.bumps for verdict in self.verdicts.get(producer, []))
            self.begun.add(producer)
        elif after.state.is_prepared:
            assert after.partitions == before.partitions
            producer = Producer(before.producer_id, before.producer_epoch)
            verdict = Verdict(
                after.state is TransactionState.PREPARE_COMMIT,
                before.partitions,
                after.producer_epoch > before.producer_epoch,
            )
            self.verdicts.setdefault(producer, []).append(verdict)
        else:
            assert after.partitions == frozenset()
            if before.state.is_prepared and before.partitions:
                # TXN-25: the end follows the markers.
                assert Producer(before.producer_id, before.producer_epoch) in self.marked
                self.marked.remove(Producer(before.producer_id, before.producer_epoch))

    # Markers.

    def on_markers(self, markers: WriteMarkers) -> None:
        """TXN-23, TXN-24: of a verdict that is committed, and exactly of its partitions."""
        known = self.last[markers.transactional_id]
        assert known.state.is_prepared
        assert (markers.producer_id, markers.producer_epoch) == known[:2]
        assert markers.is_commit == (known.state is TransactionState.PREPARE_COMMIT)
        assert list(markers.partitions) == sorted(known.partitions)
        assert markers.transaction_version == known.client_version

    def on_marked(self, markers: WriteMarkers) -> None:
        self.marked.add(Producer(markers.producer_id, markers.producer_epoch))

    # What producers were told.

    def on_initialised(self, had: Producer, given: Producer) -> None:
        """TXN-02: instances share no producer epoch, and none has the epoch kept for fencing."""
        instance = self.holders.get(had)
        if instance is None:
            self.instances += 1
            instance = self.instances
        self._hold(instance, given)

    def on_ended(self, had: Producer, given: Producer, *, is_commit: bool, bumps: bool) -> None:
        """The transaction that the producer meant has that verdict; under version 2 no other has
        it, and the producer goes on with the next epoch, or with another producer id."""
        assert had in self.holders, "nobody was ever given that"
        verdicts = self.verdicts.get(had, [])
        if verdicts or bumps:
            assert verdicts[-1].is_commit == is_commit
        else:
            # A classic end finds how the transaction before has ended: it had none of its own.
            assert had not in self.begun
        if bumps:
            assert verdicts[-1].bumps
            has_rotated = had.producer_epoch == 32_766 and given.producer_id != had.producer_id
            assert given.producer_epoch == 0 if has_rotated else given == had.bumped()
            self._hold(self.holders[had], given)

    def _hold(self, instance: int, given: Producer) -> None:
        assert 0 <= given.producer_epoch < 32_767
        assert self.holders.setdefault(given, instance) == instance, "two instances have the same"
