"""Whose brokers the tests of clients run on: Ottla's, and with ``make interop`` Apache Kafka's.

A test that takes ``broker``, or a cluster by ``cluster_of``, runs on all of them as it stands. What
is otherwise there is in ``DIFFERENCES``, with the reason; nothing else may differ.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import pytest

from ottla import Cluster, Consumer, RequestRefused
from tests.interop.apache import ApacheCluster
from tests.interop.clients import JAVA_VERSIONS, needs

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
]
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
DIFFERENCES = {
    ("", "test_the_story_of_a_group_is_told"): "only Ottla's brokers keep a timeline",
    ("", "test_a_group_without_a_story_is_not_called_unknown"): "only Ottla's brokers keep one",
    ("", f"{MISTAKE}[no.such]"): "a broker keeps settings that it does not know",
    ("3.9", f"{MISTAKE}[transaction.version]"): "transaction.version came with 4.0",
    ("3.9", "test_a_pattern_finds_topics_that_come_later[newer]"): PREVIEW,
    ("3.9", "test_features_are_listed_and_set"): "transaction.version came with 4.0",
    ("3.9", "test_features_are_described_and_checked"): "transaction.version came with 4.0",
    ("3.9", "test_administrators_see_who_has_a_transaction"): "patterns of ids came with 4.1",
    (
        "4",
        "test_settings_are_shown_and_changed",
    ): "the cluster sets one more (KIP-966)",
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


class Apaches:
    """Clusters of Apache Kafka, each started when it is first asked for, and kept to the end."""

    def __init__(self, stack: ExitStack, factory: pytest.TempPathFactory) -> None:
        self._stack = stack
        self._factory = factory
        self._found: dict[tuple[str, int, str], ApacheCluster] = {}

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
    if kind == OTTLA:
        with Cluster(brokers, settings=settings) as cluster:
            yield cluster
        return
    shared = apaches.cluster(kind, brokers)
    yield cast("Cluster", shared)
    shared.mend()


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
