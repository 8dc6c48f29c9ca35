"""Mirrors in separate processes that are killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, Cluster, Producer, TopicPartition
from ottla.client.fetching.offsets import OffsetAt
from tests.client.mirror.clusters import PATIENCE_S, fill, read
from tests.support.terminals import HEARS_HANGUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL = 4_000
KILLS = 2
# The least that brokers allow.
SOON = ("--session-timeout", "6")


@pytest.fixture(scope="module")
def source() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


async def start(source: Cluster, target: Cluster, *more: str) -> asyncio.subprocess.Process:
    """``ottla mirror run``."""
    return await asyncio.create_subprocess_exec(
        *HEARS_HANGUPS,
        *(sys.executable, "-m", "ottla", "mirror", "run", "-b", target.bootstrap_servers),
        *(
            "--from",
            f"west={source.bootstrap_servers}",
            "--refresh",
            "1",
            "--report",
            "1",
            *SOON,
            *more,
        ),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )


async def has_copied(target: Cluster, topic: str, count: int) -> None:
    """Wait until there are so many offsets in the copy."""
    async with asyncio.timeout(PATIENCE_S):
        while sum(await ends(target, topic)) < count:
            await asyncio.sleep(0.02)


async def ends(cluster: Cluster, topic: str) -> list[int]:
    """The end of each partition; nothing while there is no such topic."""
    async with Admin(cluster.bootstrap_servers) as admin:
        if topic not in [view.name for view in await admin.list_topics()]:
            return []
        partitions = [TopicPartition(topic, number) for number in range(2)]
        found = await admin.list_offsets(dict.fromkeys(partitions, -1))
        return [one.offset for one in found.values() if isinstance(one, OffsetAt)]


@pytest.mark.requirement("OPS-04")
@pytest.mark.parametrize("mode", [(), ("--exactly-once",)], ids=["group", "transactions"])
async def test_a_mirror_killed_in_the_middle_leaves_nothing_out(
    source: Cluster, target: Cluster, mode: tuple[str, ...]
) -> None:
    """Records that were read and not delivered were only in its memory."""
    topic = f"killed-{len(mode)}"
    source.create_topic(topic, 2)
    values = [b"%d" % number for number in range(ALL)]
    filling = asyncio.create_task(slowly(source, topic, values))
    for kill in range(1, KILLS + 1):
        process = await start(source, target, topic, "--name", topic, *mode)
        await has_copied(target, topic, ALL * kill // (KILLS + 2))
        process.kill()
        await process.communicate()
    await filling
    process = await start(source, target, topic, "--name", topic, "--exit", *mode)
    _, errors = await process.communicate()
    assert process.returncode == 0, errors

    originals = await read(source.bootstrap_servers, topic, ALL)
    copies = await read(target.bootstrap_servers, topic, ALL)
    for number, records in originals.items():
        expected = [one.value for one in records]
        found = [one.value for one in copies[number]]
        if mode:
            assert found == expected
        else:
            # Duplicates are of what was in flight: each goes back to where a copy restarted.
            assert list(dict.fromkeys(found)) == expected


async def slowly(source: Cluster, topic: str, values: list[bytes]) -> None:
    """Fill the topic while it is copied."""
    async with Producer(source.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, partition=number % 2)
            if number % 100 == 0:
                await asyncio.sleep(0.02)


@pytest.mark.requirement("OPS-01")
async def test_a_mirror_process_is_a_member_of_a_group_at_its_source(
    source: Cluster, target: Cluster
) -> None:
    """Tools that show groups, lag and members then show mirrors too, and a mirror needs only read
    access at the source."""
    topic, group = "as-a-group", "as-a-group.west"
    source.create_topic(topic, 2)
    await fill(source.bootstrap_servers, topic, [b"%d" % number for number in range(100)])
    ends_of_source = await ends(source, topic)
    process = await start(source, target, topic, "--name", topic)
    await has_copied(target, topic, 100)
    async with Admin(source.bootstrap_servers) as admin, asyncio.timeout(PATIENCE_S):
        view = await admin.groups.describe(group)
        process.terminate()
        await process.communicate()
        stored = await admin.groups.offsets(group)
        topics = {one.name for one in await admin.list_topics()}
        after = await admin.groups.describe(group)

    (member,) = view.members
    assert member.client_id == "ottla-mirror"
    assert sorted(member.partitions or ()) == [TopicPartition(topic, number) for number in range(2)]
    assert {where.partition: one.offset for where, one in stored.items()} == dict(
        enumerate(ends_of_source)
    )
    assert after.members == ()
    assert await ends(source, topic) == ends_of_source
    assert {one for one in topics if one.startswith("__")} == {"__consumer_offsets"}


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_mirror_that_is_asked_to_end_leaves_no_duplicate(
    source: Cluster, target: Cluster, signal_: signal.Signals
) -> None:
    """Every deployment of a new version would double something otherwise."""
    topic = f"asked-{signal_.name}"
    source.create_topic(topic, 2)
    await fill(source.bootstrap_servers, topic, [b"%d" % number for number in range(100)])
    process = await start(source, target, topic, "--name", topic)
    await has_copied(target, topic, 100)
    process.send_signal(signal_)
    output, errors = await process.communicate()
    assert b"Traceback" not in errors
    assert process.returncode == (130 if signal_ is signal.SIGINT else 0)
    assert b"west: 100 records" in output

    process = await start(source, target, topic, "--name", topic, "--exit")
    await process.communicate()
    assert sum(await ends(target, topic)) == 100
