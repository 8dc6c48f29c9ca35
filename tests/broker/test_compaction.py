"""A compacted topic of a whole broker: over the wire, on a real disk, with the worker process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.broker.server.broker import Broker
from ottla.broker.system.real_disk import RealDisk, RealOffload, RealProcess
from ottla.broker.system.worker_process import RealWorker
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.ports import Ports
from ottla.protocol.records.batch import check_crc, iterate_batches, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from ottla.protocol.records.record import read_records
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom
from tests.broker.support.requests import NOW, batch, create, fetched, listed, produced
from tests.support.in_process import RunningBroker, running_broker

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.broker.partitions.partition import PartitionRuntime
    from tests.support.raw_client import RawClient

PATIENCE_S = 90


def partition_of(running: RunningBroker | Broker, topic: str = "t") -> PartitionRuntime:
    broker = running if isinstance(running, Broker) else running.broker
    one = broker.partitions.find(topic, 0)
    assert one is not None
    return one


def keyed(*pairs: tuple[bytes, bytes | None], options: BatchOptions | None = None) -> bytes:
    entries = [(NOW + number, *pair, ()) for number, pair in enumerate(pairs)]
    return encode_batch(entries, options or BatchOptions())


def append(one: PartitionRuntime, content: bytes) -> None:
    """As a transaction's coordinator and producer do, past the door."""
    made = parse_batch(bytearray(content))
    made.stamp(one.log.log_end_offset, one.replica.leader_epoch)
    one.log.append([made], 0)
    aborted = one.replica.history.observe(made)
    one.replica.on_appended(one.log.log_end_offset, 0)
    if aborted is not None:
        one.log.append_aborted(AbortedTransaction(*aborted))


async def fill(client: RawClient, one: PartitionRuntime, rounds: int) -> None:
    """Plain, compressed and transactional batches of few keys, half of the latter aborted."""
    for number in range(rounds):
        value = b"value %d" % number
        await produced(client, keyed((b"a", value), (b"k%d" % (number % 9), value)))
        options = BatchOptions(codec=Codec(number % 5))
        await produced(client, keyed(*[(b"z%d" % n, value) for n in range(5)], options=options))
        is_aborted = number % 2 == 0
        options = BatchOptions(
            producer_id=77, producer_epoch=0, base_sequence=2 * number, is_transactional=True
        )
        word = b"bad" if is_aborted else b"good"
        append(one, keyed((b"t", word), (b"u%d" % (number % 3), word), options=options))
        kind = ControlType.ABORT if is_aborted else ControlType.COMMIT
        append(one, encode_marker(TransactionMarker(77, 0, kind, 0), NOW))


async def read_from(client: RawClient, offset: int, end: int) -> dict[bytes, bytes | None]:
    """Consumes from there to the end, with fetches of one batch or two."""
    table: dict[bytes, bytes | None] = {}
    while offset < end:
        answer = await fetched(client, offset, partition_bytes=400, isolation_level=1)
        assert answer.error_code == ErrorCode.NONE
        rows = sorted(answer.aborted_transactions or (), key=lambda row: row.first_offset)
        hidden: set[int] = set()
        batches = list(iterate_batches(answer.records))
        assert batches, offset
        assert batches[0].last_offset >= offset
        for one in batches:
            assert check_crc(one)
            while rows and rows[0].first_offset <= one.last_offset:
                hidden.add(rows.pop(0).producer_id)
            if one.is_control:
                hidden.discard(one.producer_id)
            elif not (one.is_transactional and one.producer_id in hidden):
                for record in read_records(one):
                    if record.offset >= offset:
                        assert record.key is not None
                        table[record.key] = record.value
        assert batches[-1].next_offset > offset
        offset = batches[-1].next_offset
    return table


@pytest.mark.requirement("FMT-32", "FMT-33", "LOG-34")
async def test_a_reader_that_begins_anywhere_reaches_the_end_of_a_compacted_topic() -> None:
    """In a hole, within a batch, at an empty one: readers that hung there lost weeks of data."""
    async with running_broker() as running, running.connect() as client:
        await create(client, "t", 1, cleanup_policy="compact", segment_bytes="3000")
        one = partition_of(running)
        await fill(client, one, 30)
        end = one.log.log_end_offset
        before = await read_from(client, 0, end)

        assert await running.broker.parts.cleaning.clean(one)

        segments = [segment for segment in one.log.segments if not segment.is_active]
        assert sum(segment.size_bytes for segment in segments) < 5_000
        assert await read_from(client, 0, end) == before
        assert b"bad" not in before.values()
        for offset in range(1, end, 3):
            table = await read_from(client, offset, end)
            assert {key: before[key] for key in table} == table
        assert (await listed(client, -1)).offset == end


async def test_records_without_keys_are_refused_as_soon_as_the_topic_is_compacted() -> None:
    """S-27; the policy can be changed while the broker runs, either way."""
    async with running_broker() as running, running.connect() as client:
        await create(client, "t", 1, segment_bytes="200")
        one = partition_of(running)
        for number in range(4):
            await produced(client, keyed((b"a", b"%d" % number)))
        assert (await produced(client, batch(b"no key"))).error_code == ErrorCode.NONE
        assert not await running.broker.parts.cleaning.clean(one)
        await alter(client, "cleanup.policy", "compact,delete")

        refused = await produced(client, batch(b"no key"))
        assert refused.error_code == ErrorCode.INVALID_RECORD
        for _ in range(2):
            await produced(client, keyed((b"b", b"x" * 100)))
        assert await running.broker.parts.cleaning.clean(one)
        table = await read_from(client, 0, one.log.log_end_offset)
        assert table == {b"a": b"3", b"b": b"x" * 100}
        await alter(client, "cleanup.policy", "delete")
        assert not await running.broker.parts.cleaning.clean(one)
        assert (await produced(client, batch(b"no key"))).error_code == ErrorCode.NONE


async def alter(client: RawClient, name: str, value: str, topic: str = "t") -> None:
    change = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[change])
    response = await client.call(1, IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == ErrorCode.NONE


async def test_compaction_and_retention_work_on_one_topic() -> None:
    """cleanup.policy=compact,delete: the log start moves, and what is left is compact."""
    async with running_broker() as running, running.connect() as client:
        await create(
            client,
            "t",
            1,
            cleanup_policy="compact,delete",
            segment_bytes="1000",
            retention_bytes="3000",
            retention_ms="-1",
        )
        one = partition_of(running)
        for number in range(100):
            await produced(client, keyed((b"k%d" % (number % 60), b"v" * 50)))
        await running.broker.parts.cleaning.clean(one)

        await running.broker.parts.housekeeping.apply_retention()

        start = (await listed(client, -2)).offset
        assert start > 0
        table = await read_from(client, start, 100)
        assert 10 < len(table) < 60
        await running.broker.parts.cleaning.clean(one)
        assert await read_from(client, start, 100) == table


async def test_a_broker_on_a_real_disk_cleans_by_itself_in_another_process(
    tmp_path: Path,
) -> None:
    """The whole way: settings, chore, worker, swap, restart."""
    wanted = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(tmp_path),
        "log.cleaner.backoff.ms": "20",
        "log.cleaner.min.cleanable.ratio": "0",
    }
    offload, worker = RealOffload(2), RealWorker()
    ports = Ports(
        RealClock(), RealRandom(), RealNet(), RealDisk(offload), offload, RealProcess(), worker
    )
    broker = Broker(ports, parse_broker_config(wanted).config)
    await broker.start()
    async with RunningBroker(broker).connect() as client:
        await create(client, "t", 1, cleanup_policy="compact", segment_bytes="3000")
        one = partition_of(broker)
        await fill(client, one, 30)
        end = one.log.log_end_offset
        async with asyncio.timeout(PATIENCE_S):
            while one.log.cleaned_offset < one.log.active.base_offset:
                await asyncio.sleep(0.02)
        assert worker.process_id is not None
        status = broker.parts.cleaning.status()
        assert (status.failures, status.uncleanable) == (0, {})
        assert status.freed_bytes > 0
        before = await read_from(client, 0, end)
        cleaned_offset = one.log.cleaned_offset
    await broker.stop()
    worker.close()
    assert f"t 0 {cleaned_offset}\n" in (tmp_path / "cleaner-offset-checkpoint").read_text()

    again = Broker(ports, parse_broker_config(wanted).config)
    await again.start()
    async with RunningBroker(again).connect() as client:
        assert partition_of(again).log.cleaned_offset == cleaned_offset
        assert await read_from(client, 0, end) == before
    await again.stop()
    worker.close()
    offload.close()
