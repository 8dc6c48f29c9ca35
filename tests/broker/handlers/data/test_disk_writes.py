"""Writes to a disk that is full, or nearly: on the short path of a produce, and on the long one.

A request with a client id takes the short path from the second one of its version on.
"""

from __future__ import annotations

import errno

import pytest

from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import iterate_batches
from tests.broker.handlers.data.test_disk_faults import with_faults
from tests.broker.support.requests import batch, create, fetched, produce


@pytest.mark.parametrize("client_id", ["raw", None])
async def test_the_retry_of_a_write_that_failed_is_written(client_id: str | None) -> None:
    """T-04: had the failed write been noted, its retry would be "a duplicate", acknowledged and
    lost. A full disk is temporary, so the producer retries the batch."""
    async with with_faults() as (running, client, plan):
        await create(client)
        batches = [
            batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)
            for sequence in range(3)
        ]
        found = []
        for number, one in enumerate((batches[0], batches[1], batches[1], batches[2])):
            if number == 1:
                plan.add(DiskFault(frozenset({"append"}), errno.ENOSPC, "/t-0/"))
            request = produce(one)
            client.send(9, request, client_id)
            answer = (await client.answer(9, request)).responses[0].partition_responses[0]
            found.append((answer.error_code, answer.base_offset))
            plan.clear()
            partition = running.broker.partitions.find("t", 0)
            assert partition is not None
            partition.log.home.health.is_low_on_space = False
        stored = await fetched(client, 0)

    assert found == [
        (ErrorCode.NONE, 0),
        (ErrorCode.KAFKA_STORAGE_ERROR, -1),
        (ErrorCode.NONE, 1),
        (ErrorCode.NONE, 2),
    ]
    assert [one.base_sequence for one in iterate_batches(bytes(stored.records))] == [0, 1, 2]


@pytest.mark.parametrize("client_id", ["raw", None])
async def test_a_disk_that_is_almost_full_takes_no_produce_on_either_path(
    client_id: str | None,
) -> None:
    """S-11: what is left of the disk belongs to replication, checkpoints and deletion. Requests
    with a client id take the short path from the second one of a version on."""
    async with with_faults() as (running, client, _):
        await create(client)
        request = produce(batch(b"x"))
        client.send(9, request, client_id)
        before = (await client.answer(9, request)).responses[0].partition_responses[0]
        partition = running.broker.partitions.find("t", 0)
        assert partition is not None
        partition.log.home.health.is_low_on_space = True
        client.send(9, request, client_id)
        refused = (await client.answer(9, request)).responses[0].partition_responses[0]
        read = await fetched(client, 0)
        partition.log.home.health.is_low_on_space = False
        client.send(9, request, client_id)
        after = (await client.answer(9, request)).responses[0].partition_responses[0]

    assert (before.error_code, before.base_offset) == (ErrorCode.NONE, 0)
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (read.error_code, read.high_watermark) == (ErrorCode.NONE, 1)
    assert (after.error_code, after.base_offset) == (ErrorCode.NONE, 1)
