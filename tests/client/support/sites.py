"""Which brokers the tests of clients run on: Ottla's, and with ``make interop`` Apache Kafka's.

A test that takes ``broker``, or a cluster by ``cluster_of``, runs unchanged on all of them. Known
differences are in ``DIFFERENCES``, with the reason; nothing else may differ.

Redpanda itself is not available here. It is represented by Ottla's brokers behind relays that let
through the versions that Redpanda serves: a client that asks for anything else has failed the test.
The tests of the modules in ``ALWAYS`` run there by ``make test``, too.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

import pytest

from ottla import Cluster, Consumer, RequestRefused
from tests.interop.support.apache import ApacheCluster
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.support.memory_broker import memory_broker
from tests.support.relays.narrow import Narrowed
from tests.support.relays.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from ottla.protocol.ids import TopicPartition

Answer = TypeVar("Answer")
OTTLA = "ottla"
# Apache Kafka misses a broker after six seconds, on a machine that is busy with it.
PATIENCE_S = 240
SITES = [
    pytest.param(OTTLA, id=OTTLA),
    *(
        pytest.param(
            version, id=f"kafka-{version}", marks=[pytest.mark.interop, pytest.mark.timeout(600)]
        )
        for version in JAVA_VERSIONS
    ),
    *(pytest.param(profile, id=f"as-{profile}") for profile in PROFILES),
]
ALWAYS = frozenset(
    f"tests.client.{name}"
    for name in (
        "test_any_broker",
        "test_any_topic",
        "sending.test_transactions_real",
        "cli.records.test_records",
        "cli.cluster.test_topics",
    )
)
# What the tests of groups expect of brokers, beyond their defaults.
APACHE_SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}
# (beginning of the version, test[part of its parameters]): why it is otherwise there.
# The newer protocol of groups is a preview in 3.9.
PREVIEW_SETTINGS = {"group.coordinator.rebalance.protocols": "classic,consumer"}
MISTAKE = "test_a_mistake_gets_one_sentence_and_a_status"
PREVIEW = "the newer protocol is a preview there: a member joins with the names of topics only"
# Features that Redpanda 24.3 lacks, and the errors of the client instead.
NO_HEARTBEAT = "it has no ConsumerGroupHeartbeat"
NO_FEATURES = "it has no features that are set for a cluster"
NO_ELECTIONS = "it has no ElectLeaders"
# Those that are tried in each of the protocols of groups.
OF_MEMBERS = (
    "test_members_share_the_partitions_and_take_them_over",
    "test_partitions_that_stay_keep_their_positions",
    "test_who_does_not_poll_leaves_and_comes_back",
    "test_a_static_member_that_is_back_has_what_it_had",
    "test_a_pattern_finds_topics_that_come_later",
    "test_partitions_that_are_added_are_read",
    "test_a_group_goes_on_with_another_coordinator",
    "test_a_topic_that_does_not_exist_yet_is_waited_for",
)
OF_QUOTAS = (
    "test_quotas_are_set_shown_and_removed",
    "test_mistakes_about_quotas_are_told_in_one_sentence",
    "test_a_dry_run_sets_no_quota",
)
DIFFERENCES = {
    ("", "test_the_story_of_a_group_is_told"): "only Ottla's brokers keep a timeline",
    ("", "test_a_group_without_a_story_is_not_called_unknown"): "only Ottla's brokers keep one",
    ("3.9", f"{MISTAKE}[transaction.version]"): "transaction.version came with 4.0",
    ("3.9", "test_a_pattern_finds_topics_that_come_later[newer]"): PREVIEW,
    ("3.9", "test_features_are_listed_and_set"): "transaction.version came with 4.0",
    ("3.9", "test_features_are_described_and_checked"): "transaction.version came with 4.0",
    ("3.9", "test_administrators_see_who_has_a_transaction"): "patterns of ids came with 4.1",
    (
        "4",
        "test_settings_are_shown_and_changed",
    ): "the cluster sets one more (KIP-966)",
    ("redpanda", "test_a_group_of_the_newer_protocol_reads"): NO_HEARTBEAT,
    ("redpanda", "test_a_member_goes_on_where_its_group_stands[consumer]"): NO_HEARTBEAT,
    ("redpanda", "test_ctrl_c_commits_what_a_member_has_written"): NO_HEARTBEAT,
    ("redpanda", "test_a_group_reads_on_although_a_leader_dies[consumer]"): NO_HEARTBEAT,
    **{("redpanda", f"{name}[newer]"): NO_HEARTBEAT for name in OF_MEMBERS},
    ("redpanda", f"{MISTAKE}[transaction.version]"): NO_FEATURES,
    ("redpanda", "test_features_are_listed_and_set"): NO_FEATURES,
    ("redpanda", "test_features_are_described_and_checked"): NO_FEATURES,
    ("redpanda", "test_a_producer_follows_a_leader_that_has_moved"): NO_ELECTIONS,
    ("redpanda", "test_positions_are_set_shown_and_deleted"): "its groups have no types",
    ("redpanda", "test_the_record_of_the_highest_timestamp_is_found"): "ListOffsets ends at 4",
    ("redpanda", "test_partitions_are_described_in_pages"): "it has no DescribeTopicPartitions",
    (
        "redpanda",
        "test_registered_brokers_are_listed_with_their_addresses",
    ): "it has no DescribeCluster",
    ("redpanda", "test_newer_brokers_describe_more"): "it has nothing of that",
    ("redpanda", "test_administrators_see_who_has_a_transaction"): "patterns of ids came with 4.1",
    **{("redpanda", name): "its profile is without quotas" for name in OF_QUOTAS},
    ("redpanda", "test_what_a_broker_cannot_do_is_said"): "Ottla stands behind the relay",
}


def difference(version: str, test: str, parameters: str) -> str | None:
    """Why that test is not for that version; None if it is."""
    for (beginning, named), reason in DIFFERENCES.items():
        name, _, part = named.removesuffix("]").partition("[")
        if version.startswith(beginning) and test == name and part in parameters:
            return reason
    return None


async def soon(ask: Callable[[], Awaitable[Answer]], holds: Callable[[Answer], object]) -> Answer:
    """The first answer of which it holds. Apache Kafka's controller answers before its brokers know
    of topics, settings and the ends of transactions, and they may refuse until then."""
    async with asyncio.timeout(60):
        while True:
            try:
                answer = await ask()
            except RequestRefused:
                pass
            else:
                if holds(answer):
                    return answer
            await asyncio.sleep(0.05)


class RelayedBroker(NamedTuple):
    """The address at which clients find a relayed broker."""

    address: str


class RelayedCluster:
    """Ottla's cluster as its relays show it."""

    def __init__(self, cluster: Cluster, relays: Narrowed) -> None:
        self._cluster = cluster
        self.bootstrap_servers = relays.addresses_of(cluster.bootstrap_servers)
        addresses = self.bootstrap_servers.split(",")
        self.brokers = dict(zip(cluster.brokers, map(RelayedBroker, addresses), strict=True))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


class Apaches:
    """Clusters of Apache Kafka, and the relays of each profile: started when they are first asked
    for, and kept to the end."""

    def __init__(self, stack: ExitStack, factory: pytest.TempPathFactory) -> None:
        self._stack = stack
        self._factory = factory
        self._found: dict[tuple[str, int, str], ApacheCluster] = {}
        self._relays: dict[str, Narrowed] = {}

    def relays(self, profile: str) -> Narrowed:
        """The relays of that profile."""
        if profile not in self._relays:
            made = Narrowed(PROFILES[profile])
            self._relays[profile] = self._stack.enter_context(made)
        return self._relays[profile]

    def taken_refusals(self) -> list[str]:
        """Refused requests at all profiles since the last call."""
        return [one for relays in self._relays.values() for one in relays.taken_refusals()]

    def cluster(self, version: str, brokers: int = 1, name: str = "") -> ApacheCluster:
        """The one of that size and name. Skips the test where it cannot be had."""
        key = version, brokers, name
        if key not in self._found:
            needs("java", "mvn")
            folder = self._factory.mktemp("apache")
            settings = APACHE_SETTINGS | (PREVIEW_SETTINGS if version.startswith("3.") else {})
            made = ApacheCluster(version, folder, brokers, settings)
            self._found[key] = self._stack.enter_context(made)
        return self._found[key]


@contextmanager
def cluster_of(
    kind: str,
    apaches: Apaches,
    brokers: int = 1,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Cluster]:
    """A cluster of that kind. Ottla's is made for the caller; Apache Kafka's, which has settings of
    its own, is shared, and is whole again afterwards."""
    if kind == OTTLA or kind in PROFILES:
        with Cluster(brokers, settings=settings) as cluster:
            if kind == OTTLA:
                yield cluster
            else:
                yield cast("Cluster", RelayedCluster(cluster, apaches.relays(kind)))
        return
    shared = apaches.cluster(kind, brokers)
    yield cast("Cluster", shared)
    shared.mend()


@contextmanager
def broker_of(kind: str, apaches: Apaches, name: str = "") -> Iterator[str]:
    """The address of a broker of that kind; Ottla's keeps everything in memory. Apache Kafka's is
    shared by those who give the same name."""
    if kind != OTTLA and kind not in PROFILES:
        yield apaches.cluster(kind, name=name).bootstrap_servers
        return
    with memory_broker() as address:
        yield address if kind == OTTLA else apaches.relays(kind).addresses_of(address)


async def read_all(
    servers: str,
    where: TopicPartition,
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
) -> list[bytes]:
    """The values that a new consumer finds, up to what is the end now, at offsets that go up."""
    found: list[bytes] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        Consumer(servers, offset_reset="earliest", isolation=isolation) as consumer,
    ):
        consumer.assign([where])
        end = (await consumer.end_offsets([where]))[where]
        while (consumer.position(where) or 0) < end:
            found += [record.value or b"" for record in await consumer.poll(500)]
    return found
