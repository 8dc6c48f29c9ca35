"""A topic that is deleted by its znode, as Kafka's older tools do it: what is left on the disks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.coordinator.store import paths
from tests.broker.support.followers import create_replicated
from tests.broker.support.requests import TOPIC, batch, produce
from tests.support.cluster import running_cluster

if TYPE_CHECKING:
    from pathlib import Path

# file.delete.delay.ms, by default.
DELETE_DELAY_MS = 60_000


@pytest.mark.requirement("CTL-25")
async def test_a_name_below_delete_topics_takes_directories_and_znodes_away(
    tmp_path: Path,
) -> None:
    """On every broker that has a replica; the name itself goes last."""
    offload = RealOffload(2)
    settings = {"log.dirs": str(tmp_path)}

    def directories() -> list[Path]:
        return sorted(tmp_path.glob(f"*/{TOPIC}-0*"))

    async with running_cluster(3, settings, RealDisk(offload)) as cluster:
        await create_replicated(cluster)
        leader_id, _ = cluster[1].metadata.leader_of(TOPIC, 0)
        async with cluster.connect(leader_id) as client:
            await client.call(9, produce(batch(b"x")))
        before = directories()
        lifecycle = cluster[1].state.lifecycle
        assert lifecycle is not None
        session = lifecycle.session
        await session.create(f"{paths.DELETE_TOPICS}/{TOPIC}")
        while await session.exists(f"{paths.DELETE_TOPICS}/{TOPIC}") is not None:
            await cluster[1].ports.clock.sleep(10)
        znodes = [
            path
            for path in (paths.topic(TOPIC), paths.state(TOPIC, 0), paths.config("topics", TOPIC))
            if await session.exists(path) is not None
        ]
        async with asyncio.timeout(60):
            # A broker renames a directory first, and removes it when the delay is over.
            while directories():
                for node_id in (1, 2, 3):
                    logs, clock = cluster[node_id].partitions.logs, cluster[node_id].ports.clock
                    await logs.tidy(clock.now_ms() + DELETE_DELAY_MS + 1)
                await clock.sleep(10)
    offload.close()

    assert [one.name for one in before] == [f"{TOPIC}-0"] * 3
    assert znodes == []
