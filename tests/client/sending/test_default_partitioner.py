"""Which partitions a producer with default settings chooses."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

import ottla
from tests.client.records.test_partitioner import JAVA_HASHES

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 4
BATCHES = 80


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A cluster with a topic of four partitions."""
    with ottla.Cluster() as cluster:
        cluster.create_topic("t", PARTITIONS)
        yield cluster.bootstrap_servers


@pytest.mark.requirement("PRD-14")
async def test_a_key_decides_by_its_hash(bootstrap: str) -> None:
    """The hashes are those that Kafka's own client computes."""
    async with ottla.Producer(bootstrap) as producer:
        sent = [await producer.send("t", b"x", key) for key, _ in JAVA_HASHES for _ in range(2)]
        found = [(await one).partition for one in sent]

    assert found == [(code & 0x7FFFFFFF) % PARTITIONS for _, code in JAVA_HASHES for _ in range(2)]
    assert set(found) == set(range(PARTITIONS))


@pytest.mark.requirement("PRD-14")
async def test_without_a_key_chance_decides(bootstrap: str) -> None:
    """A random choice for each batch (KIP-480). After each partition come several others: with
    round robin, producers that were started together would hit one partition at once."""
    next_ones: dict[int, set[int]] = defaultdict(set)
    async with ottla.Producer(bootstrap, linger_ms=0) as producer:
        last = (await (await producer.send("t", b"x"))).partition
        for _ in range(BATCHES):
            chosen = (await (await producer.send("t", b"x"))).partition
            next_ones[last].add(chosen)
            last = chosen

    assert set(next_ones) == set(range(PARTITIONS))
    assert all(len(ones) > 1 for ones in next_ones.values())
