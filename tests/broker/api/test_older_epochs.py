"""Replicas that act on an older leader epoch are rejected, and count for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.protocol.errors import ErrorCode
from tests.broker.api.followers import replicated


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
