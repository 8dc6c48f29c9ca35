"""Dumped files read like those of Kafka's DumpLogSegments, and damage is a line like any other."""

from __future__ import annotations

import pytest

from ottla.broker.log.recovery.dump import dump_file, line_of
from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.protocol.records.builder import BatchOptions
from ottla.protocol.records.compression import Codec
from tests.broker.log.log_under_test import DIRECTORY, START_MS, LogUnderTest
from tests.protocol.records.old_bytes import LOG_APPEND_TIME, Made, message_set, wrapper


async def filled() -> LogUnderTest:
    tested = LogUnderTest(settings=LogSettings(index_interval_bytes=1))
    log = await tested.open()
    tested.append(log, 2, value=b"hello")
    options = BatchOptions(
        codec=Codec.GZIP, leader_epoch=3, producer_id=4000, producer_epoch=1, base_sequence=7
    )
    tested.append(log, 1, timestamp=START_MS + 10, options=options)
    log.append_aborted(AbortedTransaction(4000, 0, 5, 6))
    await log.flush()
    return tested


def lines(tested: LogUnderTest, name: str, *, records: bool = False) -> list[str]:
    file = tested.disk.open(f"{DIRECTORY}/{name}")
    return [line_of(entry) for entry in dump_file(file, records=records)]


async def test_batches_are_printed_in_kafkas_words() -> None:
    """Scripts that read the output of kafka-dump-log.sh exist."""
    tested = await filled()
    first, second = lines(tested, "00000000000000000000.log")

    assert first.startswith(
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 "
        "producerEpoch: -1 partitionLeaderEpoch: 0 isTransactional: false isControl: false "
        "position: 0 CreateTime: 1700000000001 size: "
    )
    assert "magic: 2 compresscodec: none crc: " in first
    assert first.endswith("isvalid: true")
    assert "baseSequence: 7 lastSequence: 7 producerId: 4000" in second
    assert "compresscodec: gzip" in second


async def test_records_are_printed_when_asked_for() -> None:
    """Decompressed, with sizes, and bytes that are no text escaped."""
    tested = await filled()
    found = lines(tested, "00000000000000000000.log", records=True)
    assert found[1] == (
        "| offset: 0 CreateTime: 1700000000000 keySize: 1 valueSize: 5 headerKeys: [] "
        "key: k payload: hello"
    )
    assert [line[0] for line in found] == ["b", "|", "|", "b", "|"]


async def test_damage_is_shown_where_it_is() -> None:
    """This is what the operator looks at before he decides to cut."""
    tested = await filled()
    content = tested.content("00000000000000000000.log")
    size = len(content)
    content[70] ^= 1
    content.extend(bytes(100))
    found = lines(tested, "00000000000000000000.log", records=True)
    assert found[0].endswith("isvalid: false")
    assert found[1].endswith("isvalid: true")
    assert found[-1] == f"no batch at position: {size} (100 bytes to the end): unknown magic 0"


async def test_the_other_files_of_a_segment_can_be_dumped_too() -> None:
    """An index that lies is found by comparing it with its log."""
    tested = await filled()
    assert lines(tested, "00000000000000000000.index") == ["offset: 2 position: 87"]
    assert lines(tested, "00000000000000000000.timeindex") == ["timestamp: 1700000000010 offset: 2"]
    assert lines(tested, "00000000000000000000.txnindex") == [
        "version: 0 producerId: 4000 firstOffset: 0 lastOffset: 5 lastStableOffset: 6"
    ]
    assert lines(tested, "leader-epoch-checkpoint") == ["0", "2", "0 0", "3 2"]
    for suffix, name in (
        (".index", "offset index"),
        (".timeindex", "time index"),
        (".txnindex", "index of aborted transactions"),
    ):
        tested.content("00000000000000000000" + suffix).append(0)
        (line,) = lines(tested, "00000000000000000000" + suffix)
        assert line.endswith(f"bytes that are no {name}")


@pytest.mark.requirement("FMT-22")
async def test_messages_of_older_formats_are_shown_between_batches() -> None:
    """A data directory that outlived an upgrade can be looked into, also where it changes."""
    tested = await filled()
    content = tested.content("00000000000000000000.log")
    batches = bytes(content)
    made = [Made(3, START_MS, b"k", b"old"), Made(4, START_MS + 1, None, b"v" * 600_000)]
    old = message_set(0, made) + wrapper(1, made, Codec.GZIP, LOG_APPEND_TIME)
    content.extend(old + batches + message_set(1, made[:1]))
    found = lines(tested, "00000000000000000000.log", records=True)

    assert [line[0] for line in found] == [*"b||b|", *"o|o|", *"o||", *"b||b|", *"o|"]
    assert found[5].startswith(
        f"offset: 3 position: {len(batches)} NoTimestampType: -1 size: 30 magic: 0 "
        "compresscodec: none crc: "
    )
    assert found[5].endswith("isvalid: true")
    assert found[6].endswith(
        "offset: 3 NoTimestampType: -1 keySize: 1 valueSize: 3 headerKeys: [] key: k payload: old"
    )
    assert found[9].startswith(f"offset: 4 position: {len(batches) + 30 + 600_026} LogAppendTime: ")
    assert found[10].startswith(f"| offset: 3 LogAppendTime: {START_MS + 1} keySize: 1")


async def test_damage_in_an_old_message_is_shown_where_it_is() -> None:
    """A wrong checksum is betrayed, and what cannot be a message ends the list."""
    tested = await filled()
    content = tested.content("00000000000000000000.log")
    size = len(content)
    content.extend(message_set(1, [Made(3, START_MS, b"k", b"old")]) * 2)
    content[size + 37] ^= 1
    content[size + 38 + 8 : size + 38 + 12] = (2**31 - 1).to_bytes(4)
    found = lines(tested, "00000000000000000000.log", records=True)

    assert found[5].endswith("isvalid: false")
    assert found[6].startswith(f"no batch at position: {size + 38} (38 bytes to the end): ")
    assert len(found) == 7
