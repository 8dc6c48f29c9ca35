"""Replicas and controllers that act on an older epoch are rejected, and count for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from tests.broker.support.followers import replicated
from tests.broker.support.requests import batch, create, fetched, produced
from tests.support.in_process import running_broker


@pytest.mark.requirement("CTL-49")
async def test_a_follower_that_fetches_in_an_older_leader_epoch_is_rejected() -> None:
    """It missed the election, and would copy from a history that is over (R-06)."""
    async with replicated() as site:
        await site.produced()
        leadership = site.partition.replica.leadership
        assert leadership is not None
        epoch = leadership.leader_epoch + 1
        await site.partition.become(replace(leadership, leader_epoch=epoch))
        older = await site.fetched(site.first, 1, current_leader_epoch=epoch - 1)
        counted = site.leading.followers[site.first].log_end_offset
        same = await site.fetched(site.first, 1, current_leader_epoch=epoch)

        assert (older.error_code, counted) == (ErrorCode.FENCED_LEADER_EPOCH, -1)
        assert same.error_code == ErrorCode.NONE
        assert site.leading.followers[site.first].log_end_offset == 1


@pytest.mark.requirement("CTL-48")
async def test_a_deposed_controller_stops_and_deletes_no_replica() -> None:
    """Its request may have lain in a socket while its successor gave the replica a role (C-01)."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        await produced(client, batch(b"x"))
        broker = running.broker
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
        request = StopReplicaRequest(
            controller_id=1,
            controller_epoch=broker.metadata.image.controller_epoch - 1,
            topic_states=[StopReplicaTopicState("t", [state])],
        )
        answer = await broker.partitions.apply_stop_replica(request)
        read = await fetched(client, 0)

        assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert (read.error_code, read.high_watermark) == (ErrorCode.NONE, 1)
