"""The short way of reading and answering a produce request, held against the compiled codec."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decoder, encode
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.headers import (
    RequestHeader,
    decode_request_header,
    encode_request_header,
    write_response_header,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.records.straight import PRODUCE_VERSIONS, produce_answer, produce_reader

CLIENT_ID = "client"
BODY = 10 + len(CLIENT_ID)
VERSIONS = list(PRODUCE_VERSIONS)
ID = bytes(range(100, 116))
SIZES = [0, 1, 126, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152]


@dataclass
class Asked:
    """A request with one batch, as plain values."""

    topic: str = "topic"
    index: int = 3
    records: bytes | None = b"records"
    acks: int = 1

    def frame(self, version: int) -> bytes:
        """The whole frame without its length."""
        data = PartitionProduceData(index=self.index, records=self.records)
        topic = TopicProduceData(self.topic, ID, [data])
        return framed(ProduceRequest(acks=self.acks, timeout_ms=7, topic_data=[topic]), version)


def framed(request: ProduceRequest, version: int) -> bytes:
    out = bytearray()
    encode_request_header(out, RequestHeader(ApiKey.PRODUCE, version, 77, CLIENT_ID))
    return bytes(out) + encode(request, version)


def answered(version: int, topic: str, index: int, base_offset: int) -> bytes:
    """What the compiled codec answers to an appended batch."""
    out = bytearray()
    write_response_header(out, ApiKey.PRODUCE, version, 77)
    part = PartitionProduceResponse(index=index, base_offset=base_offset, log_start_offset=5)
    named = TopicProduceResponse(topic, ID, [part])
    return bytes(out) + encode(ProduceResponse(responses=[named]), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", SIZES)
def test_what_is_read_is_what_was_sent(version: int, size: int) -> None:
    """Lengths change their own length at these sizes."""
    asked = Asked(records=bytes(size))

    found = produce_reader(version)(memoryview(asked.frame(version)), BODY)

    assert found is not None
    acks, topic, index, records, _named, timeout_ms = found
    wanted = ID if version >= 13 else "topic"
    assert (acks, topic, index, len(records), timeout_ms) == (1, wanted, 3, size, 7)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topic", ["t", "ü" * 10, "x" * 126])
def test_the_answer_is_the_one_of_the_compiled_codec(version: int, topic: str) -> None:
    """Two ways to answer one request must not differ in a single byte."""
    found = produce_reader(version)(memoryview(Asked(topic).frame(version)), BODY)

    assert found is not None
    made = produce_answer(version)(77, found[4], found[2], 1 << 40, 5)
    assert made == answered(version, topic, 3, 1 << 40)


@pytest.mark.parametrize("version", VERSIONS)
def test_other_shapes_are_left_to_the_compiled_codec(version: int) -> None:
    """The short path must read the whole request."""
    part = PartitionProduceData(index=0, records=b"x")
    topic = TopicProduceData(name="t", partition_data=[part])
    read = produce_reader(version)
    others = [
        ProduceRequest(topic_data=[]),
        ProduceRequest(topic_data=[topic, topic]),
        ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[])]),
        ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[part, part])]),
        ProduceRequest(transactional_id="id", topic_data=[topic]),
    ]

    frames = [framed(other, version) for other in others]
    frames += [Asked(records=None).frame(version), Asked().frame(version) + b"\0"]

    assert [read(memoryview(frame), BODY) for frame in frames] == [None] * len(frames)


def test_a_long_name_is_left_to_the_compiled_codec() -> None:
    """Its length has a length of its own."""
    frame = Asked("x" * 127).frame(9)

    assert produce_reader(9)(memoryview(frame), BODY) is None


@given(st.sampled_from(VERSIONS), st.data())
def test_whatever_is_read_the_compiled_codec_reads_the_same(
    version: int, data: st.DataObject
) -> None:
    """A stranger's bytes may mean nothing, but never two things."""
    frame = bytearray(Asked(records=b"0123456789").frame(version))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(BODY, len(frame) - 1))] = data.draw(st.integers(0, 255))
    view = memoryview(frame)[: data.draw(st.integers(BODY, len(frame)))]

    found = produce_reader(version)(view, BODY)

    if found is not None:
        _header, position = decode_request_header(view)
        request, end = decoder(ProduceRequest, version)(view, position)
        (topic,) = request.topic_data
        (part,) = topic.partition_data
        named = bytes(topic.topic_id) if version >= 13 else topic.name
        assert found[:4] == (request.acks, named, part.index, part.records)
        assert (request.transactional_id, end) == (None, len(view))
        assert found[5] == request.timeout_ms


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_is_cut_anywhere_is_not_read(version: int) -> None:
    """Only the compiled codec says what is wrong, once."""
    frame = Asked().frame(version)

    for end in range(BODY, len(frame)):
        view = memoryview(frame)[:end]
        assert produce_reader(version)(view, BODY) is None
        with pytest.raises(RemoteProtocolError):
            decoder(ProduceRequest, version)(view, decode_request_header(view)[1])
