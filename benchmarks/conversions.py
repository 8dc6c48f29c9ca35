"""``python -m benchmarks conversions``: what old consumers cost, and what others feel of them.

A broker inside this process, on a real disk; a load generator of its own process fetches records in
format 1, while a timer of the broker's loop measures how late it is.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.frames import framed
from benchmarks.harness import Load, drive
from benchmarks.lateness import Lateness, percentile
from ottla.broker.cli.serving import loop_factory, real_ports
from ottla.broker.server.broker import Broker
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.protocol.compile import encode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from tests.broker.support.requests import create
from tests.support.in_process import RunningBroker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from ottla.broker.partitions.partition import PartitionRuntime

MEBIBYTE = 1 << 20
FETCH, FETCH_VERSION = 1, 2
LOG_BYTES = 48 * MEBIBYTE
SENT_BYTES = 96 * MEBIBYTE
QUIET_S = 2.0


class Shape(NamedTuple):
    """Of the stored batches and of the fetches."""

    record_bytes: int
    batch_bytes: int
    codec: Codec
    fetch_bytes: int


SHAPES = {
    "100b": Shape(100, 16 << 10, Codec.NONE, MEBIBYTE),
    "1k": Shape(1_000, 16 << 10, Codec.NONE, MEBIBYTE),
    "100b_in_1m": Shape(100, MEBIBYTE, Codec.NONE, MEBIBYTE),
    "100b_in_1m_gzip": Shape(100, MEBIBYTE, Codec.GZIP, MEBIBYTE),
    "1k_all_at_once": Shape(1_000, 16 << 10, Codec.NONE, 1 << 30),
}


class Measured(NamedTuple):
    """The broker as the load generator sees it: this process."""

    port: int
    process_id: int = os.getpid()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def fill(one: PartitionRuntime, shape: Shape) -> None:
    """The same batch again and again, at the page cache's speed."""
    value = (b"%016x" % 0x0123456789ABCDEF * (shape.record_bytes // 16 + 1))[: shape.record_bytes]
    stamp = one.log.home.clock.wall_ms()
    entries = [(stamp, b"%08d" % n, value, ()) for n in range(shape.batch_bytes // len(value))]
    batch = parse_batch(bytearray(encode_batch(entries, BatchOptions(codec=shape.codec))))
    written = 0
    while written < LOG_BYTES:
        batch.stamp(one.log.log_end_offset, one.replica.leader_epoch)
        one.log.append([batch], 0)
        one.replica.on_appended(one.log.log_end_offset, 0)
        written += shape.batch_bytes


def fetch_frame(topic: str, shape: Shape) -> bytes:
    """A fetch from the start of a topic, as clients of Kafka 0.10.0 send it."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=shape.fetch_bytes)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )
    return framed(FETCH, FETCH_VERSION, encode(request, FETCH_VERSION))


@asynccontextmanager
async def _broker(folder: str) -> AsyncIterator[Broker]:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": folder}
    broker = Broker(real_ports(memory=False), parse_broker_config(settings).config)
    await broker.start()
    yield broker
    await broker.stop()


async def _measure(folder: str) -> dict[str, float]:
    figures: dict[str, float] = {}
    async with _broker(folder) as broker:
        running = RunningBroker(broker)
        quiet = Lateness()
        quiet.start()
        await asyncio.sleep(QUIET_S)
        quiet.stop()
        figures["loop_delay_p99_ms_before"] = percentile(quiet.samples, 0.99)
        for name, shape in SHAPES.items():
            async with running.connect() as client:
                await create(client, name, 1)
            one = broker.partitions.find(name, 0)
            assert one is not None
            fill(one, shape)
            await one.log.flush()
            await _drive(broker, name, shape, 2)
            lateness = Lateness()
            lateness.start()
            load = await _drive(broker, name, shape, SENT_BYTES // MEBIBYTE)
            lateness.stop()
            figures[f"{name}_mb_per_core_second"] = load.bytes_per_core_second / 1e6
            figures[f"{name}_mb_per_second"] = load.bytes_per_second / 1e6
            figures[f"{name}_loop_delay_p99_ms"] = percentile(lateness.samples, 0.99)
            figures[f"{name}_loop_delay_max_ms"] = max(lateness.samples)
            figures[f"{name}_own_cpu_between_looks_p99_ms"] = percentile(lateness.own, 0.99)
            figures[f"{name}_own_cpu_between_looks_max_ms"] = max(lateness.own)
    return figures


async def _drive(broker: Broker, topic: str, shape: Shape, requests: int) -> Load:
    subject, frame = Measured(broker.address.port), fetch_frame(topic, shape)
    return await asyncio.to_thread(
        lambda: drive(subject, frame, requests=requests, pipeline=1, connections=2)
    )


def conversions() -> Mapping[str, float]:
    """Down-conversion for consumers before 0.11, and the loop's delay (target: p99 under 5 ms)."""
    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        return runner.run(_measure(folder))


CONVERSION_MEASUREMENTS: dict[str, Callable[[], Mapping[str, float]]] = {"conversions": conversions}
