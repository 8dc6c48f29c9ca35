"""The compose file in containers, by ``make interop``; skipped where there is no engine, with a
sentence that says how to get one.

The same story as in processes (test_as_processes.py), with the image built and the services
wired as the file says: network, names, volumes, published ports, limits and checks of health.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.broker.system.file_limits import DESCRIPTORS_MAX
from tests.compose.containers import Containers
from tests.compose.containers import engine as engine

if TYPE_CHECKING:
    from collections.abc import Iterator

STOP_S = 120
TOPIC = "orders"
SERVERS = "localhost:9092,localhost:9093,localhost:9094"

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def containers(engine: Any) -> Iterator[Containers]:
    """All services, healthy."""
    with Containers(engine) as running:
        yield running


async def test_a_killed_container_costs_nothing_that_was_acknowledged(
    containers: Containers,
) -> None:
    """From the machine, through published ports, with one of three brokers gone half-way."""
    async with ottla.Admin(SERVERS) as admin:
        await admin.create_topic(ottla.NewTopic(TOPIC, 3))
    acknowledged = []
    async with ottla.Producer(SERVERS) as producer:
        for number in range(200):
            if number == 100:
                await asyncio.to_thread(containers.running["broker2"].kill)
            value = b"%d" % number
            await (await producer.send(TOPIC, value, partition=number % 3))
            acknowledged.append(value)
    await asyncio.to_thread(containers.running["broker2"].start)
    await asyncio.to_thread(containers.wait_until_healthy, "broker2")

    found: list[bytes] = []
    config = ottla.ConsumerConfig(offset_reset="earliest")
    async with ottla.Consumer(SERVERS, config) as consumer:
        consumer.assign(await consumer.partitions_of(TOPIC))
        async with asyncio.timeout(60):
            while len(found) < len(acknowledged):
                found += [record.value or b"" for record in await consumer.poll(500)]
    assert sorted(found, key=int) == acknowledged


def test_containers_reach_the_brokers_by_name(containers: Containers) -> None:
    """Through the listener that is advertised to them, with nothing of the machine in between."""
    code, words = containers.running["broker3"].exec_run(
        ["ottla", "topics", "describe", TOPIC, "-b", "broker1:19092"]
    )

    assert code == 0, words.decode()
    assert TOPIC in words.decode()


def test_the_image_has_the_compiled_codec(containers: Containers) -> None:
    """The slim image has no compiler, and records would be encoded ten times as slowly."""
    code, words = containers.running["broker3"].exec_run(["ottla", "doctor", "--json"])

    assert code in (0, 1)
    levels = {one["area"]: one["level"] for one in json.loads(words)}
    assert levels["codec"] == "ok", words


def test_a_broker_takes_all_descriptors_that_the_engine_allows(containers: Containers) -> None:
    """Engines begin containers with 1,024 as often as with a million."""
    code, words = containers.running["broker3"].exec_run(["grep", "open files", "/proc/1/limits"])
    soft, hard = words.split()[3:5]

    assert code == 0
    assert int(soft) == min(int(hard), DESCRIPTORS_MAX)


def test_a_stop_is_obeyed_at_once(containers: Containers) -> None:
    """Process 1 gets the signal itself: no grace period runs out, and the status is 0."""
    container = containers.running["broker3"]
    started = time.monotonic()
    container.stop(timeout=STOP_S)
    container.reload()

    assert container.attrs["State"]["ExitCode"] == 0
    assert time.monotonic() - started < STOP_S / 2
    container.start()
    containers.wait_until_healthy("broker3")
