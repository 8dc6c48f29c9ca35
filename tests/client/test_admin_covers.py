"""Every API that a broker serves is used by a client or by a call of Admin."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from ottla.broker.api.table import TABLE
from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cluster.config_requests import ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import RequestRefused
from tests.client.support.sites import soon
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

# What no Admin does, and why.
NOT_ADMINISTRATION = {
    ApiKey.PRODUCE: "Producer",
    ApiKey.FETCH: "Consumer",
    ApiKey.INIT_PRODUCER_ID: "Producer",
    ApiKey.ADD_PARTITIONS_TO_TXN: "Producer, in a transaction",
    ApiKey.ADD_OFFSETS_TO_TXN: "Producer, in a transaction",
    ApiKey.END_TXN: "Producer, in a transaction",
    ApiKey.TXN_OFFSET_COMMIT: "Producer, in a transaction",
    ApiKey.JOIN_GROUP: "Consumer, in a group",
    ApiKey.SYNC_GROUP: "Consumer, in a group",
    ApiKey.HEARTBEAT: "Consumer, in a group",
    ApiKey.LEAVE_GROUP: "Consumer, in a group",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "Consumer, in a group of the newer protocol",
    ApiKey.SASL_HANDSHAKE: "connections, when they log in",
    ApiKey.SASL_AUTHENTICATE: "connections, when they log in",
    ApiKey.LEADER_AND_ISR: "between brokers: the controller's order to replicas",
    ApiKey.STOP_REPLICA: "between brokers: the controller's order to replicas",
    ApiKey.UPDATE_METADATA: "between brokers: the controller's news",
    ApiKey.CONTROLLED_SHUTDOWN: "between brokers: a broker asks to be relieved",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "clients that push metrics: librdkafka and Java",
    ApiKey.PUSH_TELEMETRY: "clients that push metrics: librdkafka and Java",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "between brokers: where a follower's log parts from its leader",
}
# The files that implement Admin, and those that they use.
FILES = (
    "client/admin.py",
    *(
        f"client/administration/{name}.py"
        for name in ("acls", "brokers", "features", "placements", "quotas", "tokens", "users")
    ),
    "client/administration/topic_requests.py",
    "client/administration/transaction_requests.py",
    "client/administration/transactions.py",
    *(f"client/cluster/{name}.py" for name in ("cluster", "config_requests", "coordinators")),
    "client/cluster/topic_pages.py",
    "client/fetching/offsets.py",
    "client/group/administration.py",
    "client/group/requests.py",
    "wire/connection.py",
    "wire/negotiation.py",
)


def named_keys(name: str) -> Iterator[ApiKey]:
    """The requests that a file of the client declares."""
    tree = ast.parse((ROOT / name).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ApiKey":
            yield ApiKey[node.attr]


def test_every_request_that_is_served_can_be_made() -> None:
    """A request that a broker serves and no client of ours makes is tried by strangers only."""
    made = {key for name in FILES for key in named_keys(name)}

    assert {ApiKey(key) for key in TABLE} - made == set(NOT_ADMINISTRATION)


@pytest.fixture
async def admin(broker: str) -> AsyncIterator[Admin]:
    """An Admin of a cluster of one broker."""
    async with Admin(broker) as one:
        yield one


async def test_partitions_are_described_in_pages(admin: Admin) -> None:
    """The pages are put together again, whatever their size."""
    await admin.create_topic(NewTopic("paged", 7, 1))
    found = await admin.describe_partitions(["paged"], page_partitions=3)

    assert sorted(found) == [TopicPartition("paged", number) for number in range(7)]
    first = found[TopicPartition("paged", 0)]
    assert first.replicas == first.isr == (first.leader_id,)
    assert TopicPartition("paged", 3) in await admin.describe_partitions()
    assert await admin.describe_partitions([]) == {}
    with pytest.raises(RequestRefused) as raised:
        await admin.describe_partitions(["missing"])
    assert (raised.value.code, raised.value.topic) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "missing",
    )


async def test_registered_brokers_are_listed_with_their_addresses(admin: Admin) -> None:
    """Fenced brokers are included, which the metadata leaves out."""
    (broker,) = await admin.brokers.registered()
    (known,) = (await admin.describe_cluster()).brokers

    assert (broker.node_id, broker.address, broker.is_fenced) == (
        known.node_id,
        known.address,
        False,
    )


async def test_replacing_settings_forgets_the_others(admin: Admin) -> None:
    """The older request knows no single changes."""
    await admin.create_topic(NewTopic("replaced", 1, 1, {"retention.ms": "1000"}))
    await soon(lambda: admin.describe_topic("replaced"), bool)
    await admin.replace_configs(ResourceType.TOPIC, "replaced", {"retention.bytes": "5"})
    entries = await soon(
        lambda: admin.describe_configs(
            ResourceType.TOPIC, "replaced", ["retention.bytes", "retention.ms"]
        ),
        lambda found: found[0].value == "5",
    )

    assert [entry.value == "1000" for entry in entries] == [False, False]
    with pytest.raises(RequestRefused):
        await admin.replace_configs(ResourceType.TOPIC, "replaced", {"retention.bytes": "x"})
