"""DescribeClientQuotas and AlterClientQuotas against a whole broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_client_quotas as altering
from ottla.protocol.messages import describe_client_quotas as describing
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.support.requests import create

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

Named = list[tuple[str, str | None]]


def entry(named: Named, **quotas: float | None) -> altering.AlterClientQuotasRequestEntryData:
    """One entity with quotas to be set, None to be removed."""
    return altering.AlterClientQuotasRequestEntryData(
        entity=[altering.EntityData(entity_type=kind, entity_name=name) for kind, name in named],
        ops=[
            altering.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )


async def alter(
    client: RawClient,
    *entries: altering.AlterClientQuotasRequestEntryData,
    version: int = 1,
    validate_only: bool = False,
) -> list[int]:
    request = altering.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return [one.error_code for one in (await client.call(version, request)).entries]


async def described(client: RawClient, version: int = 1) -> dict[str, dict[str, float]]:
    """All quotas, by entity."""
    answer = await client.call(version, describing.DescribeClientQuotasRequest())
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
    return {
        " ".join(f"{part.entity_type}={part.entity_name}" for part in one.entity): {
            value.key: value.value for value in one.values
        }
        for one in answer.entries
    }


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_set_changed_removed_and_shown(client: RawClient, version: int) -> None:
    """They count when the answer is there."""
    pair: Named = [("user", "a/b"), ("client-id", None)]
    assert await alter(
        client,
        entry([("user", "ANONYMOUS")], producer_byte_rate=1e6, request_percentage=12.5),
        entry(pair, consumer_byte_rate=5),
        entry([("ip", None)], connection_creation_rate=7),
        version=version,
    ) == [0, 0, 0]
    assert await described(client, version) == {
        "user=ANONYMOUS": {"producer_byte_rate": 1e6, "request_percentage": 12.5},
        "user=a/b client-id=None": {"consumer_byte_rate": 5.0},
        "ip=None": {"connection_creation_rate": 7.0},
    }
    await alter(client, entry([("user", "ANONYMOUS")], producer_byte_rate=None), version=version)
    await alter(client, entry(pair, consumer_byte_rate=None), version=version)

    assert await described(client, version) == {
        "user=ANONYMOUS": {"request_percentage": 12.5},
        "ip=None": {"connection_creation_rate": 7.0},
    }


async def test_each_entity_is_answered_by_itself(client: RawClient) -> None:
    """What is refused changes nothing, and what was only to be checked does not either."""
    errors = await alter(
        client,
        entry([("user", "u")], producer_byte_rate=-1),
        entry([("client-id", "c")], producer_byte_rate=1),
        entry([("client-id", "twice")], producer_byte_rate=1),
        entry([("client-id", "twice")], producer_byte_rate=2),
    )
    checked = await alter(client, entry([("user", "v")], producer_byte_rate=1), validate_only=True)

    assert errors == [ErrorCode.INVALID_REQUEST, 0, *[ErrorCode.INVALID_REQUEST] * 2]
    assert checked == [0]
    assert list(await described(client)) == ["client-id=c"]


async def test_a_filter_that_makes_no_sense_is_refused(client: RawClient) -> None:
    """With no entries at all, as in Kafka."""
    part = describing.ComponentData(entity_type="group", match_type=2, match=None)
    answer = await client.call(1, describing.DescribeClientQuotasRequest(components=[part]))

    assert (answer.error_code, answer.entries) == (ErrorCode.UNSUPPORTED_VERSION, None)


@pytest.mark.parametrize("version", [5, 7])
async def test_topics_beyond_the_mutation_quota_are_refused_or_the_client_held(
    client: RawClient, version: int
) -> None:
    """KIP-599: from version 6 on refused; before it created, and the client waits."""
    await alter(client, entry([("user", None)], controller_mutation_rate=1))
    topics = [
        CreatableTopic(name=name, num_partitions=20, replication_factor=1) for name in ("a", "b")
    ]
    answer = await client.call(version, CreateTopicsRequest(topics=topics, timeout_ms=5000))
    errors = [topic.error_code for topic in answer.topics]

    if version < 6:
        assert errors == [0, 0]
        assert 20_000 < answer.throttle_time_ms <= 29_000
    else:
        assert errors == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        assert 1_000 < answer.throttle_time_ms <= 9_000


async def test_what_was_not_created_does_not_count(client: RawClient) -> None:
    """A client that asks for a topic that exists must not pay for its partitions."""
    await create(client, "a", 1)
    await alter(client, entry([("user", None)], controller_mutation_rate=1))
    topic = CreatableTopic(name="a", num_partitions=1000, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    first = await client.call(7, request)
    only_checked = CreateTopicsRequest(
        topics=[CreatableTopic(name="b", num_partitions=1000, replication_factor=1)],
        timeout_ms=5000,
        validate_only=True,
    )
    second = await client.call(7, only_checked)

    assert first.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert second.topics[0].error_code == ErrorCode.NONE
    assert (await create(client, "c", 1)).error_code == ErrorCode.NONE


async def test_more_partitions_and_deletions_are_mutations(client: RawClient) -> None:
    """Both count by the partitions that come or go."""
    await create(client, "a", 5)
    await create(client, "b", 1)
    await alter(client, entry([("user", None)], controller_mutation_rate=1))
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="a", count=25, assignments=None)], timeout_ms=5000
    )
    assert (await client.call(3, more)).results[0].error_code == ErrorCode.NONE
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="b")], timeout_ms=5000)
    answer = await client.call(6, delete)

    assert answer.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert answer.throttle_time_ms > 1_000
