"""Aborted transactions on disk: Kafka's bytes, and which of them a reader is told of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.log.storage.txn_index import (
    AbortedTransaction,
    TxnIndex,
    decode_aborted,
    encode_aborted,
    touching,
)
from ottla.protocol.errors import CorruptLogError
from tests.broker.log.crash_disk import CrashDisk

if TYPE_CHECKING:
    from collections.abc import Iterator

VECTOR = "00000000000000000fa0000000000000000000000000000000050000000000000006"
FIRST = AbortedTransaction(4000, 0, 5, 6)
SECOND = AbortedTransaction(4001, 3, 9, 10)


def test_an_entry_is_kafkas_34_bytes() -> None:
    """A log directory must be readable by both."""
    assert encode_aborted(FIRST).hex() == VECTOR
    assert decode_aborted(bytes.fromhex(VECTOR)) == [FIRST]


@pytest.mark.parametrize("cut", range(1, 34))
def test_a_torn_entry_spoils_the_file(cut: int) -> None:
    """A missing abort would show aborted records to read_committed consumers."""
    assert decode_aborted(bytes.fromhex(VECTOR)[:cut]) is None


def test_entries_out_of_order_or_of_another_version_spoil_the_file() -> None:
    """Neither can have been written by us."""
    assert decode_aborted(encode_aborted(SECOND) + encode_aborted(FIRST)) is None
    assert decode_aborted(b"\0\1" + encode_aborted(FIRST)[2:]) is None


def test_a_reader_is_told_of_transactions_that_touch_its_range() -> None:
    """The search ends once the stable offset shows that nothing later can touch it."""
    assert touching([FIRST, SECOND], 0, 3) == ([FIRST], True)
    assert touching([FIRST, SECOND], 6, 8) == ([SECOND], True)
    assert touching([FIRST, SECOND], 4, 20) == ([FIRST, SECOND], False)
    assert touching([FIRST, SECOND], 10, 20) == ([], False)


def test_a_later_read_does_not_meet_all_that_was_aborted_before() -> None:
    """A segment may know of a hundred thousand, and its last reader comes many times."""

    class Seen(list[AbortedTransaction]):
        looks = 0

        def __getitem__(self, index: Any) -> Any:
            Seen.looks += 1
            return super().__getitem__(index)

        def __iter__(self) -> Iterator[AbortedTransaction]:
            for index in range(len(self)):
                yield self[index]

    entries = [AbortedTransaction(1, at, at + 1, at + 2) for at in range(0, 20_000, 2)]

    assert touching(Seen(entries), 10_000, 10_002) == ([entries[5_000]], True)
    assert Seen.looks < 100


def test_the_index_of_a_segment_is_appended_to_and_cut() -> None:
    """Truncating a log takes back the aborts whose markers go."""
    disk = CrashDisk()
    index = TxnIndex(disk, "/0.txnindex")

    assert index.entries == []
    index.append(FIRST)
    index.append(SECOND)
    assert TxnIndex(disk, "/0.txnindex").entries == [FIRST, SECOND]
    index.truncate(9)
    assert index.entries == [FIRST]
    assert TxnIndex(disk, "/0.txnindex").entries == [FIRST]


def test_a_spoiled_index_is_not_believed_until_it_is_cut() -> None:
    """Recovery cuts it to what is whole and adds the rest from the markers again."""
    disk = CrashDisk()
    disk.open("/0.txnindex", create=True).append([encode_aborted(FIRST), b"torn"])
    index = TxnIndex(disk, "/0.txnindex")

    assert index.load() is None
    with pytest.raises(CorruptLogError, match=r"0\.txnindex"):
        _ = index.entries
    index.truncate(100)
    assert index.entries == [FIRST]
