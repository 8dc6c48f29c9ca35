"""The short way of reading and answering a fetch, held against the compiled codec."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decoder, encode
from ottla.protocol.headers import (
    RequestHeader,
    decode_request_header,
    encode_request_header,
    write_response_header,
)
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.protocol.records.straight_fetch import (
    FETCH_VERSIONS,
    answer_end,
    fetch_answer,
    fetch_reader,
)

CLIENT_ID = "client"
BODY = 10 + len(CLIENT_ID)
VERSIONS = list(FETCH_VERSIONS)
TOPIC_ID = bytes(range(200, 216))
SIZES = [1, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_150, 2_097_151, 1 << 28]


def wanted(**fields: Any) -> FetchPartition:
    """One partition of a request."""
    usual = {"partition": 3, "fetch_offset": 1 << 40, "partition_max_bytes": 1000}
    return FetchPartition(**{**usual, **fields})


def request(*, topic: str = "topic", part: FetchPartition | None = None, **more: Any) -> Any:
    """A full fetch of one partition."""
    topics = [FetchTopic(topic=topic, topic_id=TOPIC_ID, partitions=[part or wanted()])]
    usual = {"max_wait_ms": 500, "min_bytes": 7, "max_bytes": 2000, "topics": topics}
    return FetchRequest(**{**usual, **more})


def frame(asked: FetchRequest, version: int) -> memoryview:
    out = bytearray()
    encode_request_header(out, RequestHeader(ApiKey.FETCH, version, 77, CLIENT_ID))
    return memoryview(bytes(out) + encode(asked, version))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rack", ["", "rack", "x" * 126])
def test_what_is_read_is_what_was_asked(version: int, rack: str) -> None:
    """A consumer that is misread gets other records than it believes."""
    asked = request(part=wanted(current_leader_epoch=5), isolation_level=1, rack_id=rack)

    found = fetch_reader(version)(frame(asked, version), BODY)

    assert found is not None
    named = TOPIC_ID if version >= 13 else "topic"
    assert found[:-1] == (500, 7, 1000, 1, named, 3, 5, 1 << 40, rack != "")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topic", ["t", "ü" * 10, "x" * 126])
@pytest.mark.parametrize("read_committed", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_the_answer_is_the_one_of_the_compiled_codec(
    version: int, topic: str, read_committed: bool, size: int
) -> None:
    """Two ways to answer one request must not differ in a single byte."""
    found = fetch_reader(version)(frame(request(topic=topic), version), BODY)
    records = bytes(min(size, 1 << 22))
    part = PartitionData(
        partition_index=3,
        high_watermark=9,
        last_stable_offset=8,
        log_start_offset=7,
        aborted_transactions=[] if read_committed else None,
        records=records,
    )
    answered = FetchableTopicResponse(topic=topic, topic_id=TOPIC_ID, partitions=[part])
    response = FetchResponse(responses=[answered])
    expected = bytearray()
    write_response_header(expected, ApiKey.FETCH, version, 77)
    expected += encode(response, version)

    assert found is not None
    made = fetch_answer(version)(77, found[-1], 3, (9, 8, 7, read_committed), len(records))
    assert bytes(made) + records + answer_end(version) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_other_shapes_are_left_to_the_compiled_codec(version: int) -> None:
    """The short path must read the whole request, and only a consumer may use it."""
    topic = FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[wanted()])
    nothing = FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[])
    twice = FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=[wanted(), wanted()])
    forgotten = ForgottenTopic(topic="t", topic_id=TOPIC_ID, partitions=[1])
    others = [
        request(topics=[]),
        request(topics=[topic, topic]),
        request(topics=[nothing]),
        request(topics=[twice]),
        request(session_id=1, session_epoch=1),
        request(forgotten_topics_data=[forgotten]),
    ]
    if version < 15:
        others += [request(replica_id=1), request(replica_id=-2)]
    else:
        others += [request(replica_state=ReplicaState(node, 5)) for node in (1, -2)]
    if version >= 12:
        others += [request(cluster_id="c"), request(part=wanted(last_fetched_epoch=1))]
        others += [request(rack_id="x" * 127)]
    if version == 12:
        others += [request(topic="x" * 127)]
    if version >= 17:
        others += [request(part=wanted(replica_directory_id=TOPIC_ID))]
    if version >= 18:
        others += [request(part=wanted(high_watermark=5))]
    frames = [frame(other, version) for other in others]
    frames.append(memoryview(bytes(frame(request(), version)) + b"\0"))

    assert [fetch_reader(version)(one, BODY) for one in frames] == [None] * len(frames)


@given(st.sampled_from(VERSIONS), st.data())
def test_whatever_is_read_the_compiled_codec_reads_the_same(
    version: int, data: st.DataObject
) -> None:
    """A stranger's bytes may mean nothing, but never two things."""
    spoiled = bytearray(frame(request(rack_id="ab"), version))
    for _ in range(data.draw(st.integers(0, 3))):
        spoiled[data.draw(st.integers(BODY, len(spoiled) - 3))] = data.draw(st.integers(0, 255))
    view = memoryview(spoiled)[: data.draw(st.integers(BODY, len(spoiled)))]

    found = fetch_reader(version)(view, BODY)

    if found is not None:
        _header, position = decode_request_header(view)
        asked, end = decoder(FetchRequest, version)(view, position)
        (topic,) = asked.topics
        (part,) = topic.partitions
        limit = min(asked.max_bytes, part.partition_max_bytes)
        assert found[:4] == (asked.max_wait_ms, asked.min_bytes, limit, asked.isolation_level)
        named = topic.topic_id if version >= 13 else topic.topic
        assert found[4:6] == (named, part.partition)
        assert found[6:8] == (part.current_leader_epoch, part.fetch_offset)
        assert found[8] == (asked.rack_id != "")
        assert (asked.replica_id, asked.session_id, end) == (-1, 0, len(view))
        assert asked.replica_state == ReplicaState()
