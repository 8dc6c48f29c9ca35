"""Requests about access rules, to a broker that has an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.raw_client import RawClient

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER, USER = 2, 3, 4, 7
DENY, ALLOW = 2, 3
ALL, READ, WRITE, DESCRIBE = 2, 3, 4, 8
NAMES = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "ottla.acl",
)
SETTINGS = {"authorizer.class.name": NAMES[0], "super.users": "User:ANONYMOUS"}
EVERY_RULE = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)

Row = tuple[int, str, int, str, str, int, int]


@pytest.fixture
async def client() -> AsyncIterator[RawClient]:
    """A connection of a super user."""
    async with running_broker(SETTINGS) as running, running.connect() as connected:
        yield connected


def _rows(answer: DescribeAclsResponse) -> list[Row]:
    assert answer.error_code == ErrorCode.NONE
    return sorted(
        (
            one.resource_type,
            one.resource_name,
            one.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for one in answer.resources
        for acl in one.acls
    )


T: Row = (TOPIC, "t", LITERAL, "User:me", "*", READ, ALLOW)
PREFIX: Row = (TOPIC, "t", PREFIXED, "User:me", "10.1.0.0/16", WRITE, DENY)
ALL_TOPICS: Row = (TOPIC, "*", LITERAL, "User:*", "*", DESCRIBE, ALLOW)
OF_GROUP: Row = (GROUP, "t", LITERAL, "User:me", "*", READ, ALLOW)


async def _create(client: RawClient, *rows: Row, version: int = 3) -> list[int]:
    answer = await client.call(version, CreateAclsRequest([AclCreation(*row) for row in rows]))
    return [result.error_code for result in answer.results]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_rules_are_made_listed_and_removed(client: RawClient, version: int) -> None:
    """A rule that is made twice is there once; what is removed is named in the answer."""
    rows = (T, PREFIX, ALL_TOPICS, OF_GROUP)
    assert await _create(client, *rows, version=version) == [0] * 4
    assert await _create(client, T, version=version) == [0]
    assert _rows(await client.call(version, EVERY_RULE)) == sorted(rows)

    wanted = DeleteAclsFilter(TOPIC, "t", ANY, None, None, ANY, ANY)
    none = DeleteAclsFilter(TOPIC, "nothing", LITERAL, None, None, ANY, ANY)
    answer = await client.call(version, DeleteAclsRequest([none, wanted, wanted]))

    matched = [
        sorted((one.resource_name, one.pattern_type, one.operation) for one in result.matching_acls)
        for result in answer.filter_results
    ]
    assert matched == [[], [("t", LITERAL, READ), ("t", PREFIXED, WRITE)], []]
    assert _rows(await client.call(version, EVERY_RULE)) == sorted((ALL_TOPICS, OF_GROUP))


async def test_version_zero_knows_literal_rules_only(client: RawClient) -> None:
    """A client of 2018 is not shown what it cannot write down."""
    assert await _create(client, T, PREFIX) == [0, 0]
    request = DescribeAclsRequest(ANY, None, LITERAL, None, None, ANY, ANY)
    assert _rows(await client.call(0, request)) == [T]
    wanted = DeleteAclsFilter(ANY, None, LITERAL, None, None, ANY, ANY)
    answer = await client.call(0, DeleteAclsRequest([wanted]))
    assert len(answer.filter_results[0].matching_acls) == 1
    assert _rows(await client.call(3, EVERY_RULE)) == [PREFIX]


@pytest.mark.parametrize(
    ("pattern_type", "found"),
    [
        (MATCH, [ALL_TOPICS, T, PREFIX]),
        (ANY, [T, PREFIX]),
        (LITERAL, [T]),
        (PREFIXED, [PREFIX]),
    ],
)
async def test_match_finds_what_is_in_force_for_a_topic(
    client: RawClient, pattern_type: int, found: list[Row]
) -> None:
    """ANY finds the patterns of that name; MATCH all that cover it."""
    await _create(client, T, PREFIX, ALL_TOPICS, OF_GROUP)
    request = DescribeAclsRequest(TOPIC, "t", pattern_type, None, None, ANY, ANY)

    assert _rows(await client.call(3, request)) == sorted(found)


@pytest.mark.parametrize(
    "row",
    [
        (ANY, "t", LITERAL, "User:me", "*", READ, ALLOW),
        (TOPIC, "t", MATCH, "User:me", "*", READ, ALLOW),
        (TOPIC, "t", ANY, "User:me", "*", READ, ALLOW),
        (TOPIC, "t", LITERAL, "User:me", "*", ANY, ALLOW),
        (TOPIC, "t", LITERAL, "User:me", "*", READ, ANY),
        (TOPIC, "", LITERAL, "User:me", "*", READ, ALLOW),
        (TOPIC, "..", LITERAL, "User:me", "*", READ, ALLOW),
        (GROUP, "a/b", LITERAL, "User:me", "*", READ, ALLOW),
        (CLUSTER, "my-cluster", LITERAL, "User:me", "*", READ, ALLOW),
        (TOPIC, "t", LITERAL, "me", "*", READ, ALLOW),
        (TOPIC, "t", LITERAL, "User:", "*", READ, ALLOW),
        (TOPIC, "t", LITERAL, "User:me", "", READ, ALLOW),
        (TOPIC, "t", LITERAL, "User:me", "10.0.0.0/33", READ, ALLOW),
    ],
)
async def test_a_rule_that_means_nothing_is_refused_alone(client: RawClient, row: Row) -> None:
    """The others of the request are made."""
    assert await _create(client, row, T) == [ErrorCode.INVALID_REQUEST, 0]
    assert _rows(await client.call(3, EVERY_RULE)) == [T]


async def test_words_that_are_unknown_refuse_the_request(client: RawClient) -> None:
    """A rule of a later version could mean the opposite of what is understood."""
    for place in (0, 2, 5, 6):
        for word in (0, 99, -1):
            row = list(T)
            row[place] = word
            assert await _create(client, tuple(row), T) == [ErrorCode.INVALID_REQUEST] * 2  # type: ignore[arg-type]
    described = await client.call(3, DescribeAclsRequest(99, None, ANY, None, None, ANY, ANY))
    unknown = DeleteAclsFilter(TOPIC, "t", LITERAL, None, None, 0, ANY)
    deleted = await client.call(3, DeleteAclsRequest([unknown]))

    assert described.error_code == ErrorCode.INVALID_REQUEST
    assert deleted.filter_results[0].error_code == ErrorCode.INVALID_REQUEST
    assert _rows(await client.call(3, EVERY_RULE)) == []


@pytest.mark.parametrize("name", NAMES)
async def test_rules_of_the_cluster_say_who_may_see_and_change_rules(name: str) -> None:
    """Describe and Alter of the cluster, for callers that are no super users."""
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    async with running_broker({"authorizer.class.name": name}) as running:
        store = running.broker.parts.authorization.acls
        assert store is not None
        async with running.connect() as client:
            assert (await client.call(3, EVERY_RULE)).error_code == refused
            assert await _create(client, T) == [refused]
            wanted = DeleteAclsFilter(TOPIC, "t", LITERAL, None, None, ANY, ANY)
            answer = await client.call(3, DeleteAclsRequest([wanted]))
            assert answer.filter_results[0].error_code == refused


async def test_a_name_that_is_no_authorizer_is_refused_at_the_start() -> None:
    """A broker that ignored the name of a plugin would be open."""
    with pytest.raises(Exception, match=r"authorizer\.class\.name cannot be"):
        async with running_broker({"authorizer.class.name": "org.example.RangerAuthorizer"}):
            pass


async def test_rules_survive_a_restart() -> None:
    """They stand in the metadata store."""
    disk = MemoryDisk()
    async with running_broker(SETTINGS, disk=disk) as running, running.connect() as client:
        assert await _create(client, T) == [0]
    async with running_broker(SETTINGS, disk=disk) as running, running.connect() as client:
        assert _rows(await client.call(3, EVERY_RULE)) == [T]
