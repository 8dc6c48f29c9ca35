"""Requests become frames: small ones in one piece, records of size without being copied."""

from __future__ import annotations

import pytest

from ottla.protocol.headers import RequestHeader, decode_request_header
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.requests import KEPT_BYTES_MIN, encode_request, kept

LARGE = bytearray(range(256)) * (KEPT_BYTES_MIN // 256)
SMALL = b"small"


def request_of(*parts: object) -> ProduceRequest:
    """One topic with a partition for each of the records."""
    data = [PartitionProduceData(number, part) for number, part in enumerate(parts)]  # type: ignore[arg-type]
    return ProduceRequest(acks=1, timeout_ms=5, topic_data=[TopicProduceData("t", b"", data)])


@pytest.mark.parametrize("version", [3, 9, 12])
@pytest.mark.parametrize("records", [(LARGE,), (SMALL,), (LARGE, SMALL, LARGE)])
def test_the_frame_is_the_same_whether_records_are_copied_or_not(
    version: int, records: tuple[bytes | bytearray, ...]
) -> None:
    """A broker sees one stream of bytes."""
    copied = encode_request(0, version, 7, "client", request_of(*records))
    apart = encode_request(0, version, 7, "client", request_of(*map(kept, records)))
    header, _ = decode_request_header(memoryview(copied[0])[4:])

    assert len(copied) == 1
    assert b"".join(apart) == copied[0]
    assert int.from_bytes(copied[0][:4]) == len(copied[0]) - 4
    assert header == RequestHeader(0, version, 7, "client")


def test_large_records_are_sent_from_where_they_are() -> None:
    """At a kilobyte a record the copies were a good part of what producing costs."""
    frame = encode_request(0, 9, 7, "client", request_of(kept(LARGE), kept(SMALL)))

    assert [part is LARGE for part in frame].count(True) == 1
    assert kept(SMALL) is SMALL
