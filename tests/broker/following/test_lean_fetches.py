"""The lean form of a follower's fetch against the declared messages, with malformed ones, too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.compile import decoder, encoder
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.protocol.ports import FileRegion
from ottla.protocol.records.follower_fetch import (
    VERSIONS,
    FollowerPosition,
    is_request,
    read_answer,
    read_request,
    write_answer,
    write_request,
)

INT32, INT64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
IDS = st.sampled_from([b"a" * 16, b"b" * 16])
POSITIONS = st.lists(st.tuples(IDS, INT32, INT32, INT64, INT32, INT64, INT32), max_size=6)
PARTS = st.lists(st.tuples(INT32, INT64, INT64, INT64, st.binary(max_size=300)), max_size=4)
ANSWERS = st.lists(st.tuples(IDS, PARTS), max_size=4)


def encoded(message: Any, version: int) -> bytes:
    out = bytearray()
    encoder(type(message), version)(message, out, [])
    return bytes(out)


def declared_request(asked: list[Any]) -> FetchRequest:
    topics: list[FetchTopic] = []
    for topic_id, *told in asked:
        if not topics or topics[-1].topic_id != topic_id:
            topics.append(FetchTopic(topic_id=topic_id))
        topics[-1].partitions.append(FetchPartition(*told))
    return FetchRequest(
        replica_state=ReplicaState(2, 99),
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1000,
        session_id=77,
        session_epoch=3,
        topics=topics,
    )


def declared_answer(topics: list[tuple[bytes, list[Any]]]) -> FetchResponse:
    return FetchResponse(
        session_id=77,
        responses=[
            FetchableTopicResponse(
                topic_id=topic_id,
                partitions=[
                    PartitionData(
                        partition_index=index,
                        high_watermark=watermark,
                        last_stable_offset=stable,
                        log_start_offset=start,
                        aborted_transactions=None,
                        records=records,
                    )
                    for index, watermark, stable, start, records in parts
                ],
            )
            for topic_id, parts in topics
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
@given(asked=POSITIONS)
def test_a_request_is_written_and_read_as_declared(
    version: int, asked: list[FollowerPosition]
) -> None:
    """A leader of another release must read it, and a follower of another one is read."""
    written = write_request((500, 1, 1000), (77, 3), (2, 99), asked)
    assert written == encoded(declared_request(asked), version)
    # The header's tags stand before it.
    frame = memoryview(b"header\0" + written)

    assert is_request(frame)
    assert read_request(frame, 6) == (500, 1, 1000, 77, 3, 2, 99, asked)


@pytest.mark.parametrize("version", VERSIONS)
@given(topics=ANSWERS)
def test_an_answer_is_written_and_read_as_declared(
    version: int, topics: list[tuple[bytes, list[Any]]]
) -> None:
    """The same bytes: a follower of another release reads them."""
    parts = write_answer(9, 77, topics, FileRegion)
    assert parts is not None
    whole = b"".join(part for part in parts if not isinstance(part, FileRegion))
    body = encoded(declared_answer(topics), version)
    found = read_answer(memoryview(body))

    assert whole == (9).to_bytes(4) + b"\0" + body
    assert found is not None
    session_id, read = found
    assert session_id == 77
    assert [(one[0], one[1], one[2], one[3], bytes(one[4])) for one in read] == [
        (topic_id, index, watermark, start, records)
        for topic_id, all_parts in topics
        for index, watermark, _, start, records in all_parts
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"error_code": 70},
        {"responses": [FetchableTopicResponse(partitions=[PartitionData(error_code=6)])]},
        {
            "responses": [
                FetchableTopicResponse(
                    partitions=[PartitionData(diverging_epoch=EpochEndOffset(1, 2), records=b"")]
                )
            ]
        },
        {"responses": [FetchableTopicResponse(partitions=[PartitionData(records=None)])]},
    ],
    ids=["error", "error of a partition", "diverging", "null records"],
)
def test_an_answer_that_says_more_is_left_to_the_declared_message(change: dict[str, Any]) -> None:
    """A follower that missed an error would take the answer for an empty one."""
    assert read_answer(memoryview(encoded(FetchResponse(**change), 17))) is None


@pytest.mark.parametrize(
    "change",
    [
        {"forgotten_topics_data": [ForgottenTopic("", b"a" * 16, [1])]},
        {"rack_id": "r"},
        {"isolation_level": 1},
        {"replica_state": ReplicaState()},
    ],
    ids=["forgotten", "rack", "isolation", "a consumer"],
)
def test_a_request_that_says_more_is_left_to_the_declared_message(change: dict[str, Any]) -> None:
    """A partition that is to be forgotten would stay in the session."""
    request = declared_request([(b"a" * 16, 1, 2, 3, 4, 5, 6)])
    for name, value in change.items():
        setattr(request, name, value)

    assert read_request(memoryview(b"\0" + encoded(request, 17)), 0) is None


@given(asked=POSITIONS, topics=ANSWERS, data=st.data())
def test_malformed_bytes_mean_the_same_to_both(
    asked: list[FollowerPosition], topics: list[tuple[bytes, list[Any]]], data: st.DataObject
) -> None:
    """What the lean form takes, the declared message takes with the same meaning."""
    for body, read, message in (
        (encoded(declared_request(asked), 17), _request_read, FetchRequest),
        (encoded(declared_answer(topics), 17), _answer_read, FetchResponse),
    ):
        broken = bytearray(body)
        for _ in range(data.draw(st.integers(1, 3))):
            broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
        del broken[len(broken) - data.draw(st.integers(0, 2)) :]
        again = read(bytes(broken))
        if again is None:
            continue
        try:
            value, end = decoder(message, 17)(memoryview(bytes(broken)), 0)
        except RemoteProtocolError:
            pytest.fail("only the lean form takes it")
        assert end == len(broken)
        assert encoded(value, 17) == again


def _request_read(body: bytes) -> bytes | None:
    try:
        found = read_request(memoryview(b"\0" + body), 0)
    except RemoteProtocolError:
        return None
    if found is None:
        return None
    wait_ms, least, most, session, epoch, node_id, broker_epoch, asked = found
    request = declared_request(asked)
    request.max_wait_ms, request.min_bytes, request.max_bytes = wait_ms, least, most
    request.session_id, request.session_epoch = session, epoch
    request.replica_state = ReplicaState(node_id, broker_epoch)
    merged = write_request((wait_ms, least, most), (session, epoch), (node_id, broker_epoch), asked)
    # The lean form joins adjacent entries of a topic, which the sender had apart.
    return body if merged is not None and len(merged) != len(body) else merged


def _answer_read(body: bytes) -> bytes | None:
    try:
        return None if read_answer(memoryview(body)) is None else body
    except RemoteProtocolError:
        return None
