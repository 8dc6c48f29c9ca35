"""Which spans of clients a broker links its span to."""

from __future__ import annotations

import pytest

from ottla.broker.tracing.trace_contexts import (
    LINKS_MAX,
    READ_BYTES_MAX,
    TraceContext,
    parse_context,
    trace_contexts,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec

VALUE = b"00-%032x-%016x-01"


def records(*numbers: int, codec: Codec = Codec.NONE, value: bytes = b"x") -> bytes:
    """A batch whose records are of these traces."""
    entries = [
        (1, None, value, (("other", b"1"), ("traceparent", VALUE % (number, number))))
        for number in numbers
    ]
    return encode_batch(entries, BatchOptions(codec=codec))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_contexts_of_all_partitions_are_found_once(codec: Codec) -> None:
    """Producers compress, and records of one trace are sent together."""
    found = trace_contexts([records(1, 2, 1, codec=codec), None, records(2, 3, codec=codec)])

    assert found == [TraceContext(number, number, 1) for number in (1, 2, 3)]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"00-abc",
        VALUE % (0, 1),
        VALUE % (1, 0),
        b"ff" + (VALUE % (1, 1))[2:],
        (VALUE % (1, 1)).replace(b"-", b"_"),
        (VALUE % (2**127, 1)).upper().replace(b"8", b"G"),
    ],
)
def test_what_is_no_context_makes_no_link(value: bytes) -> None:
    """The header may hold anything."""
    assert parse_context(value) is None


def test_a_later_version_of_the_format_is_read() -> None:
    """W3C: its first fields stay what they are, and others follow."""
    assert parse_context(b"01" + (VALUE % (5, 6))[2:] + b"-more") == TraceContext(5, 6, 1)


def test_reading_is_bounded() -> None:
    """It runs on the broker's loop, before the request."""
    many = trace_contexts([records(*range(1, LINKS_MAX + 50))])
    large = trace_contexts([records(1, value=b"x" * READ_BYTES_MAX), records(2)])
    bomb = trace_contexts([records(1, codec=Codec.GZIP, value=bytes(8 * READ_BYTES_MAX))])
    broken = trace_contexts([b"no batch at all", records(3)])

    assert len(many) == LINKS_MAX
    assert [one.trace_id for one in large] == [2]
    assert bomb == []
    assert [one.trace_id for one in broken] == [3]
