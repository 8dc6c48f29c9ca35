"""The znodes that programs of 0.7 look for, in a real ZooKeeper."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.classic import Announcement
from ottla.client.classic.announcement import announced
from ottla.coordinator.store.paths import EndpointPayload
from tests.client.classic.site import classic_site

if TYPE_CHECKING:
    from pathlib import Path


def test_a_partition_belongs_to_the_broker_of_its_first_replica() -> None:
    """A broker that is down has no partitions, as in 0.7."""
    brokers = {
        1: EndpointPayload("P", "a", 9092, "PLAINTEXT"),
        2: EndpointPayload("P", "b", 9093, "PLAINTEXT"),
    }
    topics: dict[str, dict[int, tuple[int, ...]]] = {
        "t": {0: (1, 2), 1: (2, 1), 2: (1,), 3: (3, 1), 4: ()},
        "u": {0: (2,)},
    }

    assert announced(brokers, topics) == {
        "/brokers/ids/1": b"a:9092",
        "/brokers/ids/2": b"b:9093",
        "/brokers/topics/t/1": b"2",
        "/brokers/topics/t/2": b"1",
        "/brokers/topics/u/2": b"1",
    }
    assert announced(brokers, {}, 7) == {"/brokers/ids/1": b"a:7", "/brokers/ids/2": b"b:7"}


@pytest.mark.requirement("ZKT-01", "ZKT-07")
async def test_brokers_and_topics_are_announced_in_the_form_of_07(tmp_path: Path) -> None:
    """The znodes are ephemeral, follow the cluster, and end with the announcement."""
    async with classic_site(tmp_path, 1, 2) as site:
        await site.topic("t", {0: [1], 1: [2], 2: [2]})
        tree, brokers = site.brokers.tree, site.brokers.brokers
        address = brokers[1].address
        made = await asyncio.to_thread(Announcement, site.brokers.place)
        try:
            ids = {name: tree.get(f"/kafka07/brokers/ids/{name}") for name in ("1", "2")}
            topics = {name: tree.get(f"/kafka07/brokers/topics/t/{name}") for name in ("1", "2")}
            await site.topic("new", {0: [1]})
            await site.until(lambda: tree.exists("/kafka07/brokers/topics/new/1") is not None)
            await site.brokers.stop(2)
            await site.until(lambda: tree.get_children("/kafka07/brokers/ids") == ["1"])
            await site.until(lambda: tree.get_children("/kafka07/brokers/topics/t") == ["1"])
        finally:
            await asyncio.to_thread(made.close)
        left = tree.get_children("/kafka07/brokers/ids")

    assert ids["1"][0].decode() == f"{address.host}:{address.port}"
    assert {name: value for name, (value, _) in topics.items()} == {"1": b"1", "2": b"2"}
    assert all(stat.ephemeralOwner for _, stat in [*ids.values(), *topics.values()])
    assert left == []
