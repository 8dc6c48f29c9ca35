"""What encoders leave out, refuse and splice; the rest is in ``test_compile.py``."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, cast

import pytest

from ottla.protocol import compile as codec
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import write_response_header
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
)
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
)
from ottla.protocol.messages.produce import (
    ProduceRequest,
)
from ottla.protocol.ports import FileRegion
from tests.protocol import reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer


def test_a_tagged_field_at_its_default_is_not_written() -> None:
    """Otherwise every answer would grow by fields that were never set."""
    silent = codec.encode(FetchResponse(), 16)
    speaking = codec.encode(FetchResponse(node_endpoints=[NodeEndpoint(1, "h", 9)]), 16)

    assert silent.endswith(b"\x00")
    assert len(speaking) > len(silent)


def test_a_value_that_the_version_would_lose_is_our_bug() -> None:
    """Sending it without the field would silently mean something else."""
    with pytest.raises(ValueError, match=r"forgotten_topics_data is lost in version 4"):
        codec.encode(FetchRequest(forgotten_topics_data=[ForgottenTopic("t")]), 4)


def test_an_ignorable_value_is_dropped() -> None:
    """A handler fills in what it knows without asking which version will be sent."""
    response = MetadataResponse(throttle_time_ms=9, cluster_id="c", controller_id=3)

    assert codec.encode(response, 0) == codec.encode(MetadataResponse(), 0)


@pytest.mark.parametrize(
    "wrong",
    [
        MetadataResponse(throttle_time_ms=1 << 31),
        MetadataResponse(brokers=[MetadataResponseBroker(host="h" * 40_000)]),
        MetadataResponse(brokers=[MetadataResponseBroker(host=cast("str", None))]),
        MetadataResponse(brokers=cast("list[MetadataResponseBroker]", None)),
        MetadataResponse(controller_id=cast("int", "one")),
    ],
    ids=["range", "length", "null", "null array", "type"],
)
@pytest.mark.parametrize("version", [3, 9])
def test_a_value_that_its_field_cannot_carry_is_our_bug(
    wrong: MetadataResponse, version: int
) -> None:
    """One exception for all of them, so that the broker can answer with a server error."""
    with pytest.raises(ValueError, match=r"not a MetadataResponse|of 40000 bytes"):
        codec.encode(wrong, version)


def test_a_version_that_does_not_exist_is_our_bug() -> None:
    """Versions are checked against the table before any codec is asked."""
    with pytest.raises(ValueError, match="ProduceRequest has no version 14"):
        codec.decoder(ProduceRequest, 14)


@pytest.mark.parametrize("size", [0, 126, 127, 16_382, 16_383, 2_097_150, 2_097_151])
def test_records_of_any_length_have_their_length_in_front(size: int) -> None:
    """The usual widths of that length are written in place, each by a branch of its own."""
    topic = FetchableTopicResponse(partitions=[PartitionData(1, records=b"r" * size)])
    response = FetchResponse(responses=[topic])
    encoded = codec.encode(response, 12)

    assert encoded == reference.encode(response, 12)
    assert codec.decode(FetchResponse, 12, encoded) == response


@pytest.mark.parametrize("version", [0, 4, 11, 12, 17])
def test_records_in_a_file_are_spliced(version: int) -> None:
    """The file's bytes go from the page cache to the socket without passing through here."""
    region, other = FileRegion(TextFile(b"0123456789" * 30), 3, 200), FileRegion(TextFile(), 0, 0)
    partitions = [PartitionData(0, records=region), PartitionData(1, records=b"memory")]
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(partitions=partitions),
            FetchableTopicResponse(partitions=[PartitionData(2, records=other)]),
        ]
    )
    out, regions = bytearray(b"head"), list[tuple[int, FileRegion]]()
    codec.encoder(FetchResponse, version)(response, out, regions)
    whole = codec.encode(response, version)
    position = regions[0][0]

    assert [found for _, found in regions] == [region, other]
    assert out[:position] + region.read() + out[position:] == b"head" + whole
    assert codec.decode(FetchResponse, version, whole).responses[0].partitions[0].records == (
        region.read()
    )


def test_a_nullable_struct_has_a_byte_that_says_whether_it_is_there() -> None:
    """The one form in which a struct, and not only an array of them, may be missing."""
    absent = DescribeTopicPartitionsRequest(response_partition_limit=1)
    present = DescribeTopicPartitionsRequest(response_partition_limit=1, cursor=Cursor("t", 7))

    assert codec.encode(absent, 0) == bytes.fromhex("01 00000001 ff 00")
    assert codec.encode(present, 0) == bytes.fromhex("01 00000001 01 0274 00000007 00 00")


def test_a_traceback_shows_the_generated_line() -> None:
    """A codec that fails in the field must be readable there."""
    try:
        codec.encode(MetadataResponse(controller_id=cast("int", "one")), 9)
    except ValueError as error:
        shown = "".join(traceback.format_exception(error))

    assert 'File "<encode MetadataResponse version 9>"' in shown
    assert "m.controller_id" in shown


def test_the_refusal_of_a_version_is_the_documented_frame() -> None:
    """A client that is too new reads this answer before it knows anything about the broker."""
    out = bytearray()
    write_response_header(out, ApiKey.API_VERSIONS, 7, 1)
    codec.encoder(ApiVersionsResponse, 0)(
        ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(18, 0, 4)]), out, []
    )

    assert out == bytes.fromhex("00000001 0023 00000001 0012 0000 0004")


class TextFile:
    """As much of a file as a region needs."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content
        self.path = "memory"
        self.size_bytes = len(content)

    def fileno(self) -> int:
        return -1

    def append(self, buffers: Sequence[Buffer]) -> int:
        raise NotImplementedError

    def pread(self, count: int, position: int) -> bytes:
        return self.content[position : position + count]

    def is_resident(self, position: int, count: int) -> bool:
        return True

    def truncate(self, size_bytes: int) -> None:
        raise NotImplementedError

    async def fsync(self) -> None:
        raise NotImplementedError
