"""Backups of a cluster whose producers commit all the time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla import Cluster, Producer
from ottla.client.backup import planning
from ottla.client.backup.planning import offsets_of
from tests.client.backup.shelves import create, stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from ottla import Admin, TopicPartition
    from ottla.client.backup.store import DirectoryStore

PARTITIONS = 3
PRODUCERS = 3
BACKUPS = 8


async def commit_forever(servers: str, name: str, done: asyncio.Event) -> None:
    """Transactions over all partitions, each with a value of its own; every fifth aborts."""
    async with Producer(servers, transactional_id=name, linger_ms=0) as producer:
        await producer.init_transactions()
        number = 0
        while not done.is_set():
            number += 1
            aborts = number % 5 == 0
            await producer.begin_transaction()
            for partition in range(PARTITIONS):
                value = f"{name}-{number}-{'aborted' if aborts else ''}".encode()
                await producer.send("orders", value, partition=partition)
            await producer.flush()
            # Open for most of the time, as in a program that works on records.
            await asyncio.sleep(0.2)
            await (producer.abort_transaction() if aborts else producer.commit_transaction())


async def one_by_one(
    admin: Admin, partitions: Iterable[TopicPartition], time: int
) -> dict[TopicPartition, int]:
    """The offsets of partitions whose leaders answer one after the other."""
    found = {}
    for where in partitions:
        found.update(await offsets_of(admin, [where], time))
        await asyncio.sleep(0.02)
    return found


async def test_no_transaction_is_half_in_a_backup(
    source: Cluster, store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restored cluster must not show the debit without the credit."""
    monkeypatch.setattr(planning, "offsets_of", one_by_one)
    source.create_topic("orders", PARTITIONS)
    done = asyncio.Event()
    tasks = [
        asyncio.ensure_future(commit_forever(source.bootstrap_servers, f"p{number}", done))
        for number in range(PRODUCERS)
    ]
    counts = []
    try:
        for _ in range(BACKUPS):
            await asyncio.sleep(0.2)
            manifest = await create(source.bootstrap_servers, store)
            partitions = [
                [record.value for record in records]
                for records in await stored(store, manifest, "orders")
            ]
            first, *others = map(set, partitions)
            assert all(values == first for values in others)
            assert not any(b"aborted" in (value or b"") for value in first)
            assert len(partitions[0]) == len(first)
            counts.append(len(first))
    finally:
        done.set()
        await asyncio.gather(*tasks)

    assert sorted(counts) == counts
    assert counts[-1] > 0
