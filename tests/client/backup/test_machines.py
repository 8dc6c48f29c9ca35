"""The decisions of backups: transactions, the moment, files, offsets."""

from __future__ import annotations

import pytest

from ottla import TopicPartition
from ottla.client.administration.transaction_requests import TransactionView
from ottla.client.backup.cut import CutSearch, Round, is_steady
from ottla.client.backup.errors import BackupError, DamagedBackup
from ottla.client.backup.manifest import (
    BackupManifest,
    GroupPosition,
    PartitionCopy,
    StoredFile,
    Stretch,
    TopicCopy,
    from_document,
    manifest_name,
    number_of,
    sealed,
    to_document,
    unsealed,
)
from ottla.client.backup.progress import UnfinishedBackup, begun, since, unfinished_from
from ottla.client.backup.records import OffsetTranslation
from ottla.client.backup.transactions import Sieve, TransactionTrail
from ottla.protocol.records.batch import RecordBatch, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.columns import Columns
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def data(producer_id: int, offset: int, count: int = 1) -> RecordBatch:
    """A batch of a transaction."""
    options = BatchOptions(
        base_offset=offset, producer_id=producer_id, producer_epoch=0, is_transactional=True
    )
    rows = [(0, None, b"v", ())] * count
    return parse_batch(encode_batch(rows, options))


def marker(producer_id: int, offset: int, *, commits: bool = True) -> RecordBatch:
    """The end of a transaction."""
    kind = ControlType.COMMIT if commits else ControlType.ABORT
    return parse_batch(encode_marker(TransactionMarker(producer_id, 0, kind, 0), 0, offset))


def test_an_aborted_transaction_is_left_out_and_others_around_it_are_not() -> None:
    """Records of aborted transactions lie in the log like all others."""
    batches = [data(1, 0), data(2, 1), data(1, 2), marker(1, 3, commits=False), data(1, 4)]
    batches += [marker(2, 5), marker(1, 6)]
    trail = TransactionTrail((), {})

    for batch in batches:
        trail.take(batch)

    assert trail.aborted == [Stretch(1, 0, 3)]
    assert (trail.undecided(7), trail.late) == ((), [])
    sieve = Sieve(trail.aborted)
    assert [one.base_offset for one in batches if sieve.keeps(one)] == [1, 4]


def test_an_open_transaction_is_undecided_until_a_later_backup_finds_its_marker() -> None:
    """The next backup must not forget that it began before its own first file."""
    first = TransactionTrail((), {})
    first.take(data(7, 3))
    undecided = first.undecided(5)
    second = TransactionTrail(undecided, {})
    second.take(marker(7, 9, commits=False))

    assert undecided == (Stretch(7, 3, 5),)
    assert not Sieve(undecided).keeps(data(7, 3))
    assert second.aborted == [Stretch(7, 3, 9)]


def test_a_commit_behind_the_cut_is_too_late_for_this_backup() -> None:
    """In another partition the same transaction lies behind the end of the copy."""
    trail = TransactionTrail((), {7: 4, 8: 100})
    for batch in (data(7, 0), marker(7, 1), data(7, 2), data(8, 3), marker(7, 4), marker(8, 5)):
        trail.take(batch)

    assert trail.late == [Stretch(7, 2, 4)]


def view(name: str, state: str, start_ms: int | None = 1, producer_id: int = 7) -> TransactionView:
    """A transactional id at its coordinator."""
    return TransactionView(name, 1, state, producer_id, 0, 60_000, start_ms, ())


@pytest.mark.parametrize(
    ("before", "after", "steady"),
    [
        (view("x", "Ongoing"), view("x", "Ongoing"), True),
        (view("x", "Empty"), view("x", "Empty"), True),
        (view("x", "CompleteCommit"), view("x", "CompleteCommit"), True),
        # Its markers are on their way.
        (view("x", "PrepareCommit"), view("x", "PrepareCommit"), False),
        (view("x", "Ongoing"), view("x", "PrepareCommit"), False),
        # One transaction ended, and the next one began.
        (view("x", "Ongoing", 1), view("x", "Ongoing", 2), False),
        (view("x", "Ongoing"), view("x", "Ongoing", producer_id=8), False),
        (None, view("x", "Ongoing"), False),
        (view("x", "Ongoing"), None, False),
    ],
)
def test_an_id_is_steady_if_it_can_have_committed_nothing(
    before: TransactionView | None, after: TransactionView | None, steady: bool
) -> None:
    """Everything else might be a transaction whose markers were read in part."""
    assert is_steady(before, after) is steady


def test_each_id_counts_up_to_the_ends_of_the_round_in_which_it_was_steady() -> None:
    """With many busy producers no single round finds all of them steady."""
    calm, busy = view("x", "Ongoing"), view("y", "PrepareCommit", producer_id=8)
    search = CutSearch()
    search.take(Round({"x": calm, "y": busy}, {A: 10, B: 20}, {"x": calm, "y": busy}))
    assert search.unsteady == {"y"}
    now_calm = view("y", "Ongoing", producer_id=8)
    moved = view("x", "Ongoing", 5)
    search.take(Round({"x": calm, "y": now_calm}, {A: 11, B: 22}, {"x": moved, "y": now_calm}))

    assert (search.unsteady, search.is_whole) == (frozenset(), False)
    assert search.ends == {A: 11, B: 22}
    assert search.cuts() == {A: {7: 10}, B: {7: 20}}


def test_a_whole_round_needs_no_cuts() -> None:
    """Positions of groups, read in the same round, are then exact as well."""
    calm = view("x", "Ongoing")
    search = CutSearch()
    search.take(Round({"x": calm}, {A: 10}, {"x": view("x", "Ongoing", 2)}))
    search.take(Round({"x": calm}, {A: 12}, {"x": calm}))

    assert search.is_whole
    assert search.cuts() == {}


COPY = PartitionCopy(
    0,
    3,
    30,
    (StoredFile("f1", 9, "x", 0, 10), StoredFile("f2", 9, "x", 10, 30)),
    aborted=(Stretch(1, 4, 6), Stretch(2, 12, 14)),
    undecided=(Stretch(3, 28, 30),),
    late=(Stretch(4, 20, 25),),
)
MANIFEST = BackupManifest(
    2,
    1_000,
    "c",
    True,
    (TopicCopy("t", "", 3, {"cleanup.policy": "compact"}, (COPY,)),),
    (GroupPosition("g", "t", 0, 99, "m"), GroupPosition("g", "gone", 0, 5, "")),
    ("a note",),
    acls=[],
)


def test_a_manifest_is_read_as_it_was_written() -> None:
    """A backup is what its manifest says."""
    document = unsealed("m", sealed(to_document(MANIFEST)))

    assert from_document(document) == MANIFEST
    assert number_of(manifest_name(12)) == 12
    assert number_of("manifests/x.json") is None


@pytest.mark.parametrize("cut", [0, 1, 40, -3])
def test_a_damaged_manifest_is_noticed(cut: int) -> None:
    """A flipped bit in an offset would restore the wrong records in silence."""
    whole = bytearray(sealed(to_document(MANIFEST)))
    whole[cut] ^= 1

    with pytest.raises(DamagedBackup):
        unsealed("m", bytes(whole))


def test_positions_stay_within_what_is_copied() -> None:
    """A group that is restored beyond the end would miss the next records."""
    work = UnfinishedBackup(MANIFEST, {A: 30}, {A: {1: 2}})
    again = unfinished_from(work.document())

    assert again.result().positions == (GroupPosition("g", "t", 0, 30, "m"),)
    assert (again.ends, again.cuts, again.copies) == (work.ends, work.cuts, work.copies)


def test_what_retention_has_deleted_is_not_in_later_backups() -> None:
    """Deleted records must not come back by a restore."""
    later = since(COPY, 12)

    assert (later.log_start, later.end_offset) == (12, 30)
    assert [file.name for file in later.files] == ["f2"]
    assert later.aborted == (Stretch(2, 12, 14),)
    assert since(COPY, 50).end_offset == 50


def test_a_later_backup_goes_on_and_forgets_what_was_too_late_then() -> None:
    """A transaction that was late is decided by now."""
    assert begun("t", 0, 3, 40, COPY) == COPY._replace(late=())
    assert begun("t", 0, 5, 40, None) == PartitionCopy(0, 5, 5)


def test_a_cluster_that_lost_records_is_not_backed_up_over_them() -> None:
    """Otherwise the only copy of these records would be mixed with others of the same offsets."""
    with pytest.raises(BackupError, match="ends at 29, before the end of the last backup"):
        begun("t", 0, 0, 29, COPY)


def test_offsets_are_translated_by_counting_records() -> None:
    """Gaps of compaction and of markers are not restored."""
    translation = OffsetTranslation(100, [0, 5, 6, 21, 99])
    for offsets in ((3, 5, 7), (), (20, 21)):
        translation.take(Columns.of((offset, 0, None, b"", ()) for offset in offsets))

    assert translation.end() == 105
    assert translation.found == {0: 100, 5: 101, 6: 102, 21: 104, 99: 105}
