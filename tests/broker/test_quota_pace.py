"""A client gets as much as its quota, no less and no more, and others as much as they want."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import ottla
from tests.support.in_process import running_broker

RATE = 1_000_000
VALUE = bytes(1_000)
SECONDS = 5


@pytest.mark.slow
async def test_a_limited_producer_keeps_its_pace_beside_an_unlimited_one() -> None:
    """Within a tenth; the first batches are left out, for so much may come at once."""
    times: list[tuple[float, int]] = []
    free_count = 0

    def count(report: ottla.DeliveryReport) -> None:
        times.append((time.monotonic(), report.record_count * len(VALUE)))

    def count_free(report: ottla.DeliveryReport) -> None:
        nonlocal free_count
        free_count += report.record_count

    async def send(producer: ottla.Producer[Any, Any], topic: str) -> None:
        end = time.monotonic() + SECONDS + 1
        while time.monotonic() < end:
            await producer.send(topic, VALUE, partition=0)
            # An unlimited one would leave the broker of the same process no time.
            await asyncio.sleep(0 if topic == "slow" else 0.0005)

    async with running_broker() as running:
        address = str(running.broker.address)
        async with ottla.Admin(address) as admin:
            for topic in ("slow", "free"):
                await admin.create_topic(ottla.NewTopic(topic, 1))
            await admin.quotas.alter_quotas({"client-id": "slow"}, {"producer_byte_rate": RATE})
        async with (
            ottla.Producer(
                address,
                client_id="slow",
                on_delivery=count,
                batch_bytes=50_000,
                memory_bytes_max=500_000,
            ) as slow,
            ottla.Producer(address, client_id="free", on_delivery=count_free) as free,
        ):
            await asyncio.gather(send(slow, "slow"), send(free, "free"))
    began = times[0][0] + 1
    counted = [(when, size) for when, size in times if began < when < began + SECONDS]
    pace = sum(size for _when, size in counted[1:]) / (counted[-1][0] - counted[0][0])

    assert pace == pytest.approx(RATE, rel=0.1)
    assert free_count > 1_000
