"""The trace contexts of W3C (``traceparent``) in the headers of produced records. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.protocol.errors import KafkaError, RemoteProtocolError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.record import read_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.protocol.ports import Buffer

HEADER = "traceparent"
# The default of OpenTelemetry's SDK.
LINKS_MAX = 128
# Of a sampled request, records are read up to this size, and decompressed up to four times of it:
# about a millisecond.
READ_BYTES_MAX = 64 * 1024
_FORM = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?", re.ASCII)
_BAD_VERSION = b"ff"


class TraceContext(NamedTuple):
    """A span of a client."""

    trace_id: int
    span_id: int
    flags: int


def trace_contexts(records: Iterable[Buffer | None]) -> list[TraceContext]:
    """Return the contexts that the records of a request carry, each once, at most 128.

    Records beyond 64 KiB, and what cannot be read, have none: the span is made without them."""
    found: dict[TraceContext, None] = {}
    left_bytes = READ_BYTES_MAX
    for one in records:
        if one is None or len(one) > left_bytes:
            continue
        left_bytes -= len(one)
        try:
            for context in _of(one):
                found[context] = None
                if len(found) >= LINKS_MAX:
                    return list(found)
        except (KafkaError, RemoteProtocolError):
            continue
    return list(found)


def _of(records: Buffer) -> Iterator[TraceContext]:
    for batch in iterate_batches(records):
        for record in read_records(batch, 4 * READ_BYTES_MAX):
            for name, value in record.headers:
                context = None if name != HEADER or value is None else parse_context(value)
                if context is not None:
                    yield context


def parse_context(value: bytes) -> TraceContext | None:
    """Return the context that a ``traceparent`` stands for; None if it is none."""
    match = _FORM.fullmatch(value)
    if match is None or value.startswith(_BAD_VERSION):
        return None
    context = TraceContext(int(match[1], 16), int(match[2], 16), int(match[3], 16))
    return context if context.trace_id and context.span_id else None
