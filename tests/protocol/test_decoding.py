"""What decoders refuse, skip and leave in place; the rest is in ``test_compile.py``."""

from __future__ import annotations

import pytest

from ottla.protocol import compile as codec
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.headers import decode_request_header
from ottla.protocol.messages.api_versions import (
    ApiVersionsRequest,
)
from ottla.protocol.messages.fetch import (
    FetchRequest,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.primitives import ELEMENTS_MAX


@pytest.mark.parametrize(
    ("version", "three", "four", "topic"),
    [(1, "00000003", "00000004", "0000"), (9, "04", "05", "0100")],
)
def test_a_count_is_refused_before_its_elements_are_read(
    version: int, three: str, four: str, topic: str
) -> None:
    """In seven bytes three of the smallest topics fit, four cannot (hazard N-03)."""
    rest = "" if version == 1 else "01000000"
    whole = bytes.fromhex(three + topic * 3 + rest)

    assert len(codec.decode(MetadataRequest, version, whole).topics or ()) == 3
    with pytest.raises(RemoteProtocolError, match="4 elements of topics in 7 bytes"):
        codec.decode(MetadataRequest, version, bytes.fromhex(four) + bytes(7))


def test_the_elements_of_a_message_are_capped() -> None:
    """Each byte of a large frame may become an object of a hundred."""
    count = ELEMENTS_MAX + 1
    body = count.to_bytes(4, "big") + bytes(2 * count)

    with pytest.raises(RemoteProtocolError, match="elements of topics"):
        codec.decode(MetadataRequest, 1, body)


def test_many_small_arrays_are_capped_together() -> None:
    """Otherwise nesting would be the way around the cap."""
    topic = b"\0\1t" + (1_000_000).to_bytes(4, "big") + bytes(4_000_000)
    body = b"\0\1g" + (3).to_bytes(4, "big") + topic * 3

    with pytest.raises(RemoteProtocolError, match="elements of partition_indexes"):
        codec.decode(OffsetFetchRequest, 1, body)


def test_unknown_tags_are_skipped() -> None:
    """A newer client may add a field to a version that exists already; it must not be refused."""
    plain = codec.encode(ApiVersionsRequest("name", "1"), 3)
    unknown = b"\x02" + b"\x63\x03abc" + b"\xe3\x01\x00"

    assert plain[-1] == 0
    assert codec.decode(ApiVersionsRequest, 3, plain[:-1] + unknown) == ApiVersionsRequest(
        "name", "1"
    )


def test_a_tag_that_its_field_does_not_fill_is_refused() -> None:
    """Half-read tags would let two readers of the same bytes see different messages."""
    request = FetchRequest(cluster_id="id")
    encoded = codec.encode(request, 12)
    tagged = b"\x01\x00\x03\x03id"
    assert encoded.endswith(tagged)

    longer = encoded.removesuffix(tagged) + b"\x01\x00\x04\x03id\0"

    with pytest.raises(RemoteProtocolError, match="cluster_id does not fill its tag"):
        codec.decode(FetchRequest, 12, longer)


@pytest.mark.parametrize("version", [2, 3, 8, 9, 13])
def test_records_are_a_view_of_the_frame(version: int) -> None:
    """Copying every produced batch once would cost more than the rest of the request."""
    request = ProduceRequest(
        acks=1, topic_data=[TopicProduceData(partition_data=[PartitionProduceData(0, b"batch")])]
    )
    frame = bytearray(codec.encode(request, version))
    decoded = codec.decode(ProduceRequest, version, frame)
    frame[frame.index(b"batch")] = ord("B")
    records = decoded.topic_data[0].partition_data[0].records

    assert isinstance(records, memoryview)
    assert bytes(records) == b"Batch"


def test_the_whole_frame_of_the_specification_is_read() -> None:
    """The one frame whose bytes the documents give: ApiVersions version 3."""
    frame = bytes.fromhex("00120003000000010003636c69 00 057465737404312e3000".replace(" ", ""))
    header, position = decode_request_header(frame)
    request, end = codec.decoder(ApiVersionsRequest, 3)(memoryview(frame), position)

    assert header == (18, 3, 1, "cli")
    assert request == ApiVersionsRequest("test", "1.0")
    assert end == len(frame)
