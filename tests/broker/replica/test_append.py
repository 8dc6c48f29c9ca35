"""What is refused before it touches the log, with which code, and what must be looked into."""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING

import pytest

from ottla.broker.replica.append import (
    AppendPlan,
    AppendRules,
    AppendTime,
    ReadReason,
    judge_produced,
)
from ottla.broker.replica.record_checks import RecordChecks, look_at_length, look_here
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import refresh_crc
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from tests.broker.replica.support.batches import WALL_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_MS = 3_600_000
RULES = AppendRules()


def produced(
    options: BatchOptions = BatchOptions(),  # noqa: B008
    timestamps: Sequence[int] = (WALL_MS, WALL_MS),
    keys: Sequence[bytes | None] | None = None,
) -> bytearray:
    names = keys or [b"k"] * len(timestamps)
    entries = [(time, key, b"v", ()) for time, key in zip(timestamps, names, strict=True)]
    return bytearray(encode_batch(entries, options))


def changed(layout: str, position: int, value: int, *, sealed: bool = True) -> bytearray:
    """A good batch with one header field changed, its checksum made right again if ``sealed``."""
    content = produced()
    struct.pack_into(layout, content, position, value)
    if sealed:
        refresh_crc(content, 0)
    return content


def judge(content: bytearray | None, rules: AppendRules = RULES, version: int = 9) -> AppendPlan:
    judged = judge_produced(content, rules, version, WALL_MS)
    if isinstance(judged, AppendPlan):
        return judged
    # A batch that is written unchanged must also pass the full check, and the check keeps it.
    assert content is not None
    before = bytes(content)
    plan = AppendPlan(ErrorCode.NONE, None, judged, ReadReason.FORM)
    if rules.validates:
        assert look_at_length(plan, rules, WALL_MS).plan.error is ErrorCode.NONE
    assert content == before
    return plan._replace(look=ReadReason.NOT)


def is_written_as_it_came(content: bytearray, rules: AppendRules = RULES) -> bool:
    return not isinstance(judge_produced(content, rules, 9, WALL_MS), AppendPlan)


def inside(content: bytearray, rules: AppendRules = RULES) -> RecordChecks:
    """The verdict on the records, which is the same wherever they are read."""
    plan = judge(content, rules)
    assert plan.error is ErrorCode.NONE, plan.message
    found = look_here(plan, rules, WALL_MS)
    at_length = look_at_length(plan, rules, WALL_MS)
    assert found is not None
    assert (found.plan.error, found.record_errors) == (
        at_length.plan.error,
        at_length.record_errors,
    )
    return found


def test_a_good_batch_is_kept_as_it_came() -> None:
    """The bytes of the producer are the bytes on disk; nothing is decoded on the way."""
    plan = judge(produced())

    assert plan.error is ErrorCode.NONE
    assert plan.batch is not None
    assert plan.batch.record_count == 2
    assert (plan.look, plan.recompress, plan.stamps_time) == (ReadReason.NOT, None, False)
    assert is_written_as_it_came(produced())


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (bytearray(), ErrorCode.INVALID_RECORD),
        (bytearray(11), ErrorCode.INVALID_RECORD),
        (bytearray(12), ErrorCode.CORRUPT_MESSAGE),
        (changed(">b", 16, 1), ErrorCode.INVALID_RECORD),
        (changed(">b", 16, 3), ErrorCode.CORRUPT_MESSAGE),
        (changed(">i", 8, 13, sealed=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(">i", 8, 40, sealed=False), ErrorCode.CORRUPT_MESSAGE),
        (produced()[:-1], ErrorCode.INVALID_RECORD),
        (produced()[:40], ErrorCode.INVALID_RECORD),
        (produced() + produced(), ErrorCode.INVALID_RECORD),
        (changed(">q", 0, 1), ErrorCode.INVALID_RECORD),
        (changed(">i", 23, 0), ErrorCode.INVALID_RECORD),
        (changed(">i", 23, 2), ErrorCode.INVALID_RECORD),
        (changed(">i", 57, 0), ErrorCode.INVALID_RECORD),
        (changed(">i", 57, 3), ErrorCode.INVALID_RECORD),
        (changed(">i", 57, -1), ErrorCode.INVALID_RECORD),
        (changed(">i", 23, -1), ErrorCode.INVALID_RECORD),
        (changed(">h", 21, 0x20), ErrorCode.INVALID_RECORD),
        (changed(">h", 21, 0x10), ErrorCode.INVALID_RECORD),
        (changed(">h", 21, 0x05), ErrorCode.INVALID_RECORD),
        (changed(">q", 43, 7), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_batch_that_no_producer_may_send_is_refused(
    content: bytearray | None, error: ErrorCode
) -> None:
    """Written, it would stop every consumer and every follower of the partition (S-31)."""
    plan = judge(content)

    assert plan.error is error
    assert plan.message
    assert plan.batch is None


@pytest.mark.parametrize("codec", list(Codec))
def test_only_a_compressed_batch_is_read_before_it_is_written_as_it_came(codec: Codec) -> None:
    """Nearly all requests are not compressed; each would cost twice if it were read again."""
    options = BatchOptions(producer_id=7, producer_epoch=0, base_sequence=3, codec=codec)
    plan = judge(produced(options))

    assert plan.look is (ReadReason.NOT if codec is Codec.NONE else ReadReason.FORM)
    assert (plan.recompress, plan.stamps_time) == (None, False)


@pytest.mark.parametrize(
    "rules",
    [
        AppendRules(is_compacted=True),
        AppendRules(uses_append_time=True),
        AppendRules(codec=Codec.ZSTD),
        AppendRules(timestamp_before_max_ms=HOUR_MS),
        AppendRules(timestamp_after_max_ms=-1),
        AppendRules(max_message_bytes=len(produced()) - 1),
        AppendRules(segment_bytes=len(produced()) - 1),
    ],
)
def test_a_batch_is_not_written_as_it_came_if_the_topic_asks_for_more(rules: AppendRules) -> None:
    """What must be looked into or changed is not written as it came."""
    assert not is_written_as_it_came(produced(), rules)


@pytest.mark.requirement("LOG-35")
@pytest.mark.parametrize("position", [21, 22, 30, 57, 60, 61, -1])
def test_a_flipped_bit_is_corruption_wherever_it_is(position: int) -> None:
    """Clients repeat CORRUPT_MESSAGE; any other code would lose a record that was only garbled."""
    content = produced()
    content[position] ^= 0x04

    assert judge(content).error is ErrorCode.CORRUPT_MESSAGE


def test_a_marker_of_a_client_is_refused() -> None:
    """A client that could write markers could commit another producer's transaction."""
    marker = TransactionMarker(7, 0, ControlType.COMMIT, 0)

    assert judge(bytearray(encode_marker(marker, WALL_MS))).error is ErrorCode.INVALID_RECORD


def test_an_idempotent_batch_names_epoch_and_sequence() -> None:
    """The accepted neighbour of the refused ones."""
    options = BatchOptions(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)

    assert judge(produced(options)).error is ErrorCode.NONE


def test_a_sequence_without_a_producer_means_nothing() -> None:
    """Plain producers of some libraries leave 0 in the field and not -1."""
    assert judge(changed(">i", 53, 0)).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        (AppendRules(max_message_bytes=len(produced())), ErrorCode.NONE),
        (AppendRules(max_message_bytes=len(produced()) - 1), ErrorCode.MESSAGE_TOO_LARGE),
        (AppendRules(segment_bytes=len(produced())), ErrorCode.NONE),
        (AppendRules(segment_bytes=len(produced()) - 1), ErrorCode.RECORD_LIST_TOO_LARGE),
    ],
)
def test_a_batch_may_be_as_large_as_the_limit(rules: AppendRules, error: ErrorCode) -> None:
    """Producers split the batch on MESSAGE_TOO_LARGE, so the code must be that one."""
    assert judge(produced(), rules).error is error


@pytest.mark.parametrize(
    ("codec", "version", "error"),
    [
        (Codec.ZSTD, 7, ErrorCode.NONE),
        (Codec.ZSTD, 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (Codec.LZ4, 3, ErrorCode.NONE),
    ],
)
def test_zstd_needs_a_version_that_knows_it(codec: Codec, version: int, error: ErrorCode) -> None:
    """KIP-110: old consumers are told by the same rule."""
    plan = judge(produced(BatchOptions(codec=codec)), version=version)

    assert plan.error is error


@pytest.mark.parametrize(
    ("timestamps", "error"),
    [
        ([WALL_MS + HOUR_MS], ErrorCode.NONE),
        ([WALL_MS + HOUR_MS + 1], ErrorCode.INVALID_TIMESTAMP),
        ([WALL_MS, WALL_MS + HOUR_MS + 1], ErrorCode.INVALID_TIMESTAMP),
        ([WALL_MS - 1_000], ErrorCode.NONE),
        ([WALL_MS - 1_001], ErrorCode.INVALID_TIMESTAMP),
        ([-1], ErrorCode.NONE),
    ],
)
def test_times_from_far_away_are_refused(timestamps: list[int], error: ErrorCode) -> None:
    """Seconds for milliseconds delete a segment at once; 2050 keeps it for ever (S-17)."""
    rules = AppendRules(timestamp_before_max_ms=1_000)
    by_header = judge(produced(timestamps=timestamps), dataclasses.replace(rules, validates=False))
    by_records = inside(produced(timestamps=timestamps), rules)

    assert by_header.error is by_records.plan.error is error
    assert len(by_records.record_errors) == (error is not ErrorCode.NONE)


def test_a_record_without_a_time_hides_none_that_is_too_old() -> None:
    """No time at all is the smallest of numbers."""
    rules = AppendRules(timestamp_before_max_ms=1_000)
    found = inside(produced(timestamps=[-1, WALL_MS - 5_000, WALL_MS]), rules)

    assert found.plan.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _reason in found.record_errors] == [1]


def test_a_topic_with_append_time_ignores_the_producers_clock() -> None:
    """Its times are overwritten anyway."""
    rules = AppendRules(uses_append_time=True, timestamp_before_max_ms=0)
    plan = judge(produced(timestamps=[1]), rules)

    assert plan.error is ErrorCode.NONE
    assert (plan.stamps_time, plan.look) == (True, ReadReason.FORM)


@pytest.mark.parametrize(
    ("rules", "codec", "look", "recompress"),
    [
        (AppendRules(is_compacted=True), Codec.NONE, ReadReason.KEYS, None),
        (AppendRules(timestamp_before_max_ms=HOUR_MS), Codec.NONE, ReadReason.TIMESTAMPS, None),
        (AppendRules(codec=Codec.LZ4), Codec.LZ4, ReadReason.NOT, None),
        (AppendRules(codec=Codec.LZ4), Codec.NONE, ReadReason.CODEC, Codec.LZ4),
        (AppendRules(codec=Codec.NONE), Codec.GZIP, ReadReason.CODEC, Codec.NONE),
        (AppendRules(uses_append_time=True), Codec.GZIP, ReadReason.APPEND_TIME, None),
        (
            AppendRules(is_compacted=True, codec=Codec.ZSTD),
            Codec.NONE,
            ReadReason.KEYS | ReadReason.CODEC,
            4,
        ),
    ],
)
def test_a_topic_that_checks_headers_has_records_read_where_they_must_be(
    rules: AppendRules, codec: Codec, look: ReadReason, recompress: Codec | None
) -> None:
    """``ottla.validate.records=header`` spares the rest."""
    plan = judge(produced(BatchOptions(codec=codec)), dataclasses.replace(rules, validates=False))

    assert plan.error is ErrorCode.NONE
    assert (plan.look, plan.recompress) == (look, recompress)
    assert judge(produced(BatchOptions(codec=codec)), rules).look == look | ReadReason.FORM


def test_a_compacted_topic_refuses_records_without_keys() -> None:
    """They could never be compacted away (S-27); the client learns which ones (KIP-467)."""
    rules = AppendRules(is_compacted=True)
    content = produced(timestamps=[WALL_MS] * 3, keys=[b"a", None, None])
    found = inside(content, rules)

    assert found.plan.error is ErrorCode.INVALID_RECORD
    assert [index for index, _reason in found.record_errors] == [1, 2]
    assert inside(content).plan.error is ErrorCode.NONE


def test_a_wrong_time_wins_over_a_wrong_record() -> None:
    """Kafka answers INVALID_TIMESTAMP when both are there."""
    rules = AppendRules(is_compacted=True, timestamp_before_max_ms=HOUR_MS)
    times = [WALL_MS, WALL_MS - HOUR_MS - 1]
    found = inside(produced(timestamps=times, keys=[None, b"k"]), rules)

    assert found.plan.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _reason in found.record_errors] == [0, 1]
    assert "before" in found.record_errors[1][1]


def test_append_times_never_go_back() -> None:
    """A time index whose times fall is no index (S-18)."""
    times = AppendTime()

    assert [times.next(wall_ms) for wall_ms in (5, 7, 3, 8)] == [5, 7, 7, 8]
