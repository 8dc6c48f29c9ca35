"""Refusals that clients can read, and that are about what they asked for."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.api.table import TABLE
from ottla.broker.testing.refusals import can_be_refused, refusal_of
from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decode, encode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader, encode_request_header, response_header
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.schema import schema_of
from ottla.wire.messages import request_of, response_of

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def refused(key: ApiKey, version: int, request: object) -> Any:
    """The refusal as a client reads it."""
    frame = bytearray()
    encode_request_header(frame, RequestHeader(key, version, 7, "client"))
    frame += encode(request, version)
    (answer,) = refusal_of(memoryview(frame), REFUSED)
    header = response_header(key, version)(7)
    assert bytes(answer[: len(header)]) == header
    return decode(response_of(key), version, bytes(answer[len(header) :]))


@pytest.mark.parametrize("key", [key for key in sorted(TABLE) if can_be_refused(ApiKey(key))])
def test_every_version_of_a_refusal_can_be_read(key: int) -> None:
    """A client that cannot read the answer sees a broken broker, not an error."""
    api = TABLE[key]
    for version in range(api.min_version, api.max_version + 1):
        response = refused(ApiKey(key), version, request_of(key)())

        field = schema_of(type(response)).fields.get("error_code")
        if field is not None and field.versions.holds(version):
            assert response.error_code == REFUSED


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_refused_produce_names_its_partitions(version: int) -> None:
    """Errors of produce belong to partitions; without them the client waits for ever."""
    partitions = [PartitionProduceData(2, b"x"), PartitionProduceData(5, b"y")]
    request = ProduceRequest(None, -1, 1_000, [TopicProduceData("t", partition_data=partitions)])

    (topic,) = refused(ApiKey.PRODUCE, version, request).responses

    assert topic.name == "t"
    found = [(one.index, one.error_code) for one in topic.partition_responses]
    assert found == [(2, REFUSED), (5, REFUSED)]


def test_a_refused_offset_fetch_names_groups_topics_and_numbers() -> None:
    """Where the request has a list of numbers, the answer has a list of structs."""
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[3])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])

    (group,) = refused(ApiKey.OFFSET_FETCH, 8, request).groups

    assert (group.group_id, group.error_code) == ("g", REFUSED)
    assert group.topics[0].name == "t"
    assert group.topics[0].partitions[0].partition_index == 3


def test_a_refused_search_of_coordinators_names_the_keys() -> None:
    """Since version 4 the answer has a list; before, it is for one key."""
    new = refused(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
    old = refused(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key="g"))

    assert [(one.key, one.error_code) for one in new.coordinators] == [("g", REFUSED)]
    assert old.error_code == REFUSED


@pytest.mark.parametrize("version", [3, 4])
def test_a_refused_transaction_names_its_partitions(version: int) -> None:
    """The one API that calls its error by another name."""
    topics = [AddPartitionsToTxnTopic("t", [1])]
    request = (
        AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=topics)
        if version == 3
        else AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("x", topics=topics)])
    )

    response = refused(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)

    (topic,) = (
        response.results_by_topic_v3_and_below
        if version == 3
        else response.results_by_transaction[0].topic_results
    )
    (partition,) = topic.results_by_partition
    assert (topic.name, partition.partition_index) == ("t", 1)
    assert partition.partition_error_code == REFUSED
