"""Reads that follow another broker's message must not be older than that message (hazard C-24)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.broker.metadata.config_watch import ConfigWatch
from ottla.broker.metadata.metadata import MetadataCache
from ottla.broker.metadata.partition_existence import missing_partitions
from ottla.coordinator.store import paths
from ottla.protocol.ids import TopicPartition
from tests.simulation.cluster.ensemble import StoreProfile
from tests.simulation.cluster.test_store import Stage

if TYPE_CHECKING:
    from ottla.protocol.ports import Ports
    from tests.simulation.cluster.store import SimSession


def test_the_settings_of_a_new_topic_are_read_as_they_are_now() -> None:
    """A broker that hears of a topic before its ZooKeeper server has seen the topic's settings
    would keep the logs without them: there is no second notification."""
    for seed in range(8):
        stage = Stage(seed, StoreProfile(lag_probability=0.5, lag_ms=400.0))
        told = asyncio.Event()
        seen: list[dict[str, str]] = []

        async def make(session: SimSession, ports: Ports, told: asyncio.Event = told) -> None:
            for path in paths.PERMANENT_PATHS:
                if path.startswith("/config"):
                    await session.create(path)
            await ports.clock.sleep(4_000.0)
            await session.create(paths.config("topics", "t"), paths.build_config({"a": "b"}))
            told.set()

        async def hear(
            session: SimSession,
            ports: Ports,
            told: asyncio.Event = told,
            seen: list[dict[str, str]] = seen,
        ) -> None:
            await ports.clock.sleep(3_500.0)
            metadata = MetadataCache(ports.clock)
            watch = ConfigWatch(metadata, Tasks())
            await watch.begin(session)
            await told.wait()
            await watch.refresh_topics(["t"])
            seen.append(dict(metadata.image.config("topics", "t")))
            await watch.end()

        stage.client("controller", make)
        stage.client("broker", hear)

        async def story() -> None:
            await asyncio.sleep(10.0)

        stage.run(story())
        assert seen == [{"a": "b"}], seed


def test_a_partition_is_missing_only_if_the_store_has_no_such_topic_now() -> None:
    """A broker whose ZooKeeper server does not know a new topic yet would skip its markers, and the
    topic's readers would wait for ever (T-25)."""
    for seed in range(8):
        stage = Stage(seed, StoreProfile(lag_probability=0.5, lag_ms=400.0))
        made = asyncio.Event()
        seen: list[set[TopicPartition]] = []

        async def make(session: SimSession, ports: Ports, made: asyncio.Event = made) -> None:
            for path in ("/brokers", paths.TOPICS):
                await session.create(path)
            await ports.clock.sleep(4_000.0)
            payload = paths.TopicPayload(bytes(16), {0: (1,)})
            await session.create(paths.topic("t"), paths.build_topic(payload))
            made.set()

        async def look(
            session: SimSession,
            ports: Ports,
            made: asyncio.Event = made,
            seen: list[set[TopicPartition]] = seen,
        ) -> None:
            await ports.clock.sleep(3_500.0)
            await made.wait()
            asked = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)]
            seen.append(await missing_partitions(session, asked))

        stage.client("controller", make)
        stage.client("broker", look)

        async def story() -> None:
            await asyncio.sleep(10.0)

        stage.run(story())
        assert seen == [{TopicPartition("t", 1), TopicPartition("gone", 0)}], seed
