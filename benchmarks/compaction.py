"""``python -m benchmarks.compaction [MEGABYTES]``: compaction, and what others feel of it.

A broker inside this process, on a real disk, with its worker. Its log is filled past the network;
then one run of the cleaner is timed while a timer of the same loop measures how late it is.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from benchmarks.__main__ import run
from benchmarks.harness import use_bytecode_cache
from benchmarks.lateness import Lateness, percentile
from ottla.broker.cli.serving import loop_factory, real_ports
from ottla.broker.server.broker import Broker
from ottla.broker.system.worker_process import RealWorker
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.builder import encode_batch
from tests.broker.support.requests import create
from tests.support.in_process import RunningBroker

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.ports import Ports

MEBIBYTE = 1 << 20
VALUE_BYTES = 1000
RECORDS_PER_BATCH = 64
KEYS = 20_000


def fill(one: PartitionRuntime, size_bytes: int) -> None:
    """Batches of keys that come again and again, at the page cache's speed."""
    value = os.urandom(VALUE_BYTES)
    number = written = 0
    stamp = one.log.home.clock.wall_ms()
    while written < size_bytes:
        entries = []
        for _ in range(RECORDS_PER_BATCH):
            # A step that is prime to the number of keys visits all of them.
            entries.append((stamp, b"customer-%08d" % (number * 7919 % KEYS), value, ()))
            number += 1
        batch = parse_batch(bytearray(encode_batch(entries)))
        batch.stamp(one.log.log_end_offset, one.replica.leader_epoch)
        one.log.append([batch], 0)
        one.replica.history.observe(batch)
        one.replica.on_appended(one.log.log_end_offset, 0)
        written += batch.size_bytes
    one.log.roll(one.log.log_end_offset, 0)


async def measure(size_bytes: int, folder: str) -> dict[str, float]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": folder,
        "log.cleaner.enable": "false",
        "log.segment.bytes": str(64 * MEBIBYTE),
        "log.cleanup.policy": "compact",
    }
    ports: Ports = real_ports(memory=False)
    broker = Broker(ports, parse_broker_config(settings).config)
    await broker.start()
    async with RunningBroker(broker).connect() as client:
        await create(client, "t", 1)
    one = broker.partitions.find("t", 0)
    assert one is not None
    fill(one, size_bytes)
    await one.log.flush()
    quiet = await _sampled(asyncio.sleep(2))
    used = time.process_time()
    started = time.perf_counter()
    lateness = await _sampled(broker.parts.cleaning.clean(one))
    seconds = time.perf_counter() - started
    used = time.process_time() - used
    status = broker.parts.cleaning.status()
    assert status.runs == 1, status
    await broker.stop()
    assert isinstance(ports.worker, RealWorker)
    ports.worker.close()
    return {
        "cleaned_mb": status.read_bytes / 1e6,
        "mb_per_second": status.read_bytes / 1e6 / seconds,
        "records_per_second": status.read_bytes / VALUE_BYTES / seconds,
        "left_mb": (status.read_bytes - status.freed_bytes) / 1e6,
        "broker_cpu_seconds": used,
        "loop_delay_p50_ms": percentile(lateness.samples, 0.5),
        "loop_delay_p99_ms": percentile(lateness.samples, 0.99),
        "loop_delay_max_ms": max(lateness.samples),
        "loop_delay_p99_ms_before": percentile(quiet.samples, 0.99),
        "loop_delay_mean_ms": statistics.fmean(lateness.samples),
        "own_cpu_between_looks_p99_ms": percentile(lateness.own, 0.99),
        "own_cpu_between_looks_max_ms": max(lateness.own),
    }


async def _sampled(work: Awaitable[object]) -> Lateness:
    lateness = Lateness()
    lateness.start()
    await work
    lateness.stop()
    return lateness


def main(size_bytes: int) -> None:
    """Measure with the loop that a broker has, and keep the result."""

    def compaction() -> dict[str, float]:
        """Run the cleaner once over a log and measure the loop's delay (target: p99 under 5 ms)."""
        with (
            tempfile.TemporaryDirectory() as folder,
            asyncio.Runner(loop_factory=loop_factory()) as runner,
        ):
            return runner.run(measure(size_bytes, folder))

    run("compaction", compaction)


if __name__ == "__main__":
    use_bytecode_cache()
    main(int(sys.argv[1] if len(sys.argv) > 1 else 1024) * MEBIBYTE)
