"""The compiled codecs: the same as the reference at every version, and unmoved by hostile bytes."""

from __future__ import annotations

import contextlib
import traceback
import tracemalloc
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol import compile as codec
from ottla.protocol import reference
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, RemoteProtocolError
from ottla.protocol.headers import decode_request_header, write_response_header
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
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
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.ports import FileRegion
from ottla.protocol.primitives import ELEMENTS_MAX
from tests.support.messages import (
    Case,
    all_cases,
    bare_message,
    full_message,
    message_classes,
    messages,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer

PROPERTY = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_every_field_of_every_version_survives_the_wire(case: Case) -> None:
    """The fast codec is generated, so each version is its own program that may be wrong."""
    for message in (case.declared(), full_message(*case), bare_message(*case)):
        try:
            expected = reference.encode(message, case.version)
        except ValueError:
            # An all-default message may hold a null that the version has no form for.
            assert message == case.declared()
            continue
        encoded = codec.encode(message, case.version)

        assert encoded == expected
        assert codec.decode(case.declared, case.version, encoded) == message
        assert reference.decode(case.declared, case.version, encoded) == message


@pytest.mark.parametrize("declared", message_classes(), ids=lambda declared: declared.__name__)
def test_any_message_is_the_same_in_both_codecs(declared: type[Any]) -> None:
    """The reference reads like the specification; whatever differs from it is a bug."""

    @PROPERTY
    @given(messages(declared))
    def check(drawn: tuple[Any, int]) -> None:
        message, version = drawn
        encoded = codec.encode(message, version)

        assert encoded == reference.encode(message, version)
        assert codec.decode(declared, version, encoded) == message
        assert reference.decode(declared, version, encoded) == message

    check()


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_a_message_cut_anywhere_is_refused(case: Case) -> None:
    """A frame's length is the sender's claim; what is missing must not be made up."""
    encoded = codec.encode(full_message(*case), case.version)
    cuts = range(len(encoded)) if len(encoded) < 20 else range(0, len(encoded), len(encoded) // 20)

    for cut in cuts:
        with pytest.raises(RemoteProtocolError):
            codec.decode(case.declared, case.version, encoded[:cut])


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_bytes_after_the_message_are_refused(case: Case) -> None:
    """They would mean that the two sides disagree about the version's layout."""
    encoded = codec.encode(full_message(*case), case.version)

    with pytest.raises(RemoteProtocolError, match="1 bytes too many"):
        codec.decode(case.declared, case.version, encoded + b"\0")


@settings(PROPERTY, max_examples=300)
@given(case=st.sampled_from(all_cases()), garbage=st.binary(max_size=200))
def test_garbage_is_decoded_alike_or_refused_by_both(case: Case, garbage: bytes) -> None:
    """A stranger chooses the bytes; the only answers are a message or RemoteProtocolError."""
    results = []
    for decode in (codec.decode, reference.decode):
        try:
            message = decode(case.declared, case.version, garbage)
            results.append(reference.encode(message, case.version))
        except RemoteProtocolError:
            results.append(b"refused")

    assert results[0] == results[1]


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_a_huge_length_anywhere_allocates_next_to_nothing(case: Case) -> None:
    """A hundred bytes must not be able to ask for gigabytes (hazard N-03)."""
    encoded = codec.encode(full_message(*case), case.version)
    step = max(1, len(encoded) // 12)
    decode = codec.decoder(case.declared, case.version)
    tracemalloc.start()
    for position in range(0, len(encoded), step):
        for huge in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"):
            hostile = encoded[:position] + huge + encoded[position + len(huge) :]
            with contextlib.suppress(RemoteProtocolError):
                decode(memoryview(hostile), 0)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 128 * 1024 + 20 * len(encoded)


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_a_varint_without_end_is_refused(case: Case) -> None:
    """Each byte says that one more follows; the reader must lose patience at the fifth."""
    encoded = codec.encode(full_message(*case), case.version)

    for position in range(0, len(encoded), max(1, len(encoded) // 10)):
        hostile = encoded[:position] + b"\xff" * 2000
        with pytest.raises(RemoteProtocolError):
            codec.decode(case.declared, case.version, hostile)


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


def test_a_tagged_field_at_its_default_is_not_written() -> None:
    """Clients that compare bytes aside, every answer would grow by fields nobody set."""
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
    """One exception for all of them, so that whoever encodes can answer with a server error."""
    with pytest.raises(ValueError, match=r"not a MetadataResponse|of 40000 bytes"):
        codec.encode(wrong, version)


def test_a_version_that_does_not_exist_is_our_bug() -> None:
    """Versions are checked against the table before any codec is asked."""
    with pytest.raises(ValueError, match="ProduceRequest has no version 14"):
        codec.decoder(ProduceRequest, 14)


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


def test_the_whole_frame_of_the_specification_is_read() -> None:
    """The one frame whose bytes the documents give: ApiVersions version 3."""
    frame = bytes.fromhex("00120003000000010003636c69 00 057465737404312e3000".replace(" ", ""))
    header, position = decode_request_header(frame)
    request, end = codec.decoder(ApiVersionsRequest, 3)(memoryview(frame), position)

    assert header == (18, 3, 1, "cli")
    assert request == ApiVersionsRequest("test", "1.0")
    assert end == len(frame)


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
