"""Retention, flushing and expiry as a running broker does them, one chore at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.replica.retention import ModifiedTimeRetention, SegmentFacts
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.api.requests import NOW, batch, create, fetched, listed, produced
from tests.support.in_process import RunningBroker, running_broker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.raw_client import RawClient


async def fill(client: RawClient, count: int, **configs: str) -> int:
    """A topic of segments that hold one batch each; returns the size of a batch."""
    one = batch(b"x" * 1000)
    await create(client, "t", 1, segment_bytes=str(len(one)), **configs)
    for _ in range(count):
        await produced(client, one)
    return len(one)


async def keep_house(running: RunningBroker) -> None:
    """Apply retention now."""
    assert running.broker.housekeeping is not None
    await running.broker.housekeeping.apply_retention()


@pytest.mark.requirement("LOG-21", "LOG-17")
async def test_size_retention_deletes_whole_segments_from_the_old_end() -> None:
    """What is left fits the limit, and the log start tells where it begins."""
    async with running_broker() as running, running.connect() as client:
        size = await fill(client, 10, retention_bytes="3500", retention_ms="-1")

        await keep_house(running)

        left = 3500 // size
        assert (await listed(client, -2)).offset == 10 - left
        assert (await fetched(client, 10 - left)).log_start_offset == 10 - left


@pytest.mark.requirement("LOG-19", "LOG-22", "ARC-06")
async def test_time_retention_goes_by_the_largest_timestamp() -> None:
    """Records of 2023 are older than a day; whether anybody has read them does not matter."""
    async with running_broker() as running, running.connect() as client:
        await fill(client, 5, retention_ms="-1")
        await fetched(client, 0)
        await keep_house(running)
        kept = (await listed(client, -2)).offset
        partition = running.broker.partitions.find("t", 0)
        assert partition is not None
        await create(client, "old", retention_ms="86400000", segment_bytes="2000")
        for _ in range(3):
            await produced(client, batch(b"y" * 1000), topic="old")
        await keep_house(running)

        assert kept == 0
        assert (await listed(client, -2, topic="old")).offset == 3
        assert running.broker.ports.clock.wall_ms() - 86_400_000 > NOW


@pytest.mark.requirement("LOG-23")
async def test_a_policy_of_the_operators_own_is_obeyed() -> None:
    """A callable beside the built-in ones: here, keep the last two segments."""

    def last_two(segments: Sequence[SegmentFacts], _wall_ms: int) -> Sequence[SegmentFacts]:
        return segments[:-2]

    async with running_broker() as running, running.connect() as client:
        await fill(client, 6, retention_ms="-1")
        assert running.broker.housekeeping is not None
        running.broker.housekeeping.policies.append(last_two)

        await keep_house(running)

        assert (await listed(client, -2)).offset == 4


@pytest.mark.requirement("LOG-20")
async def test_retention_by_file_time_can_be_chosen() -> None:
    """The older rule: a file that was changed just now stays, whatever its records say."""
    async with running_broker() as running, running.connect() as client:
        await fill(client, 4, retention_ms="-1")
        assert running.broker.housekeeping is not None
        running.broker.housekeeping.policies.append(ModifiedTimeRetention(60_000))

        await keep_house(running)

        assert (await listed(client, -2)).offset == 0


async def test_a_changed_setting_takes_effect_at_once() -> None:
    """Nobody restarts a broker for retention.bytes."""
    async with running_broker() as running, running.connect() as client:
        await fill(client, 5, retention_ms="-1")
        change = AlterableConfig(name="retention.bytes", config_operation=0, value="1")
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
        answer = await client.call(1, IncrementalAlterConfigsRequest(resources=[resource]))

        await keep_house(running)

        assert answer.responses[0].error_code == 0
        assert (await listed(client, -2)).offset >= 4


async def test_silent_producers_are_forgotten() -> None:
    """Their memory is bounded by producer.id.expiration.ms, not by their number."""
    settings = {"producer.id.expiration.ms": "1"}
    async with running_broker(settings) as running, running.connect() as client:
        await create(client)
        one = batch(b"x", producer_id=9, producer_epoch=0, base_sequence=0)
        await produced(client, one)
        partition = running.broker.partitions.find("t", 0)
        assert partition is not None
        assert running.broker.housekeeping is not None
        before = len(partition.replica.history.producers)
        await running.broker.housekeeping.expire_producers()
        await running.broker.ports.clock.sleep(5)
        await running.broker.housekeeping.expire_producers()

        assert before == 1
        assert len(partition.replica.history.producers) == 0
