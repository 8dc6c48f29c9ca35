"""The example of consume, transform, produce; and what becomes of the same without transactions."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, Committed, Consumer, ConsumerConfig, Isolation, NewTopic, Producer
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

EXAMPLE = Path(__file__).parents[3] / "examples" / "records" / "exactly_once.py"
COUNT = 400


@pytest.fixture
async def admin(broker: str) -> AsyncIterator[Admin]:
    """An admin of the running broker."""
    async with Admin(broker) as connected:
        yield connected


async def fill(broker: str, admin: Admin, name: str) -> list[bytes]:
    """Topics for the example, and lines in the first one."""
    await admin.create_topics([NewTopic(f"{name}-in", 2), NewTopic(f"{name}-out", 2)])
    lines = [b"line %d" % number for number in range(COUNT)]
    async with Producer(broker) as producer:
        for number, line in enumerate(lines):
            await producer.send(f"{name}-in", line, partition=number % 2)
    return [line.upper() for line in lines]


async def read(broker: str, topic: str) -> list[bytes]:
    """All committed values."""
    found: list[bytes] = []
    config = ConsumerConfig(isolation=Isolation.READ_COMMITTED)
    async with Consumer(broker, config) as consumer:
        partitions = await consumer.partitions_of(topic)
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            found += [record.value or b"" for record in await consumer.poll(1_000)]
    return found


async def start(broker: str, name: str, *options: str) -> asyncio.subprocess.Process:
    """The example as a person starts it."""
    arguments = ["-b", broker, "--group", name, *options, f"{name}-in", f"{name}-out"]
    return await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), *arguments, stdout=asyncio.subprocess.PIPE
    )


@pytest.mark.requirement("TXN-08")
async def test_the_example_does_what_it_says(broker: str, admin: Admin) -> None:
    """The specification's sample program, with its names in Python's spelling."""
    expected = await fill(broker, admin, "sample")
    process = await start(broker, "sample", "--records", "50", "--to-end")
    output, _ = await process.communicate()
    again = await start(broker, "sample", "--to-end")
    nothing, _ = await again.communicate()

    assert (process.returncode, output) == (0, b"%d records\n" % COUNT)
    assert (again.returncode, nothing) == (0, b"0 records\n")
    assert Counter(await read(broker, "sample-out")) == Counter(expected)
    source = EXAMPLE.read_text()
    for name in (
        "init_transactions",
        "begin_transaction",
        "send(",
        "send_offsets_to_transaction",
        "commit_transaction",
        "abort_transaction",
        "get_uncommitted_offsets",
        "process_records",
        "CONSUMER_POLL_TIMEOUT_MS",
    ):
        assert name in source


@pytest.mark.requirement("TXN-31", "TXN-04", "TXN-03")
async def test_the_example_survives_being_killed(broker: str, admin: Admin) -> None:
    """Wherever it dies, records and positions are both there or both not."""
    expected = await fill(broker, admin, "killed")
    for part in range(1, 5):
        process = await start(broker, "killed", "--records", "3")
        for _ in range(200):
            offsets = await admin.groups.offsets("killed")
            if sum(position.offset for position in offsets.values()) > part * COUNT // 6:
                break
            await asyncio.sleep(0.01)
        process.kill()
        await process.wait()
    last = await start(broker, "killed", "--to-end")
    await last.communicate()

    assert last.returncode == 0
    assert Counter(await read(broker, "killed-out")) == Counter(expected)


@pytest.mark.requirement("TXN-03")
async def test_a_second_instance_of_the_example_ends_the_first(broker: str, admin: Admin) -> None:
    """Two at once would double everything."""
    expected = await fill(broker, admin, "twins")
    first = await start(broker, "twins", "--records", "1")
    while not await admin.groups.offsets("twins"):
        await asyncio.sleep(0.01)
    second = await start(broker, "twins", "--to-end")
    await second.communicate()
    assert second.returncode == 0
    if first.returncode is None:
        async with Producer(broker) as producer:
            await producer.send("twins-in", b"more")
        await asyncio.wait_for(first.communicate(), 30)

    assert first.returncode == 1
    seen = Counter(await read(broker, "twins-out"))
    assert seen == Counter(expected)


class Crash(Exception):
    """The application dies here."""


async def without_transactions(
    broker: str, admin: Admin, name: str, order: Sequence[str], *, crashes: bool
) -> None:
    """One round of the loop in that order, from the committed offset; it may die half-way."""
    where = TopicPartition(f"{name}-in", 0)
    async with Consumer(broker) as consumer, Producer(broker) as producer:
        committed = await consumer.committed(name, [where])
        consumer.assign([where])
        consumer.seek(where, committed[where].offset if committed else 0)
        records = await consumer.poll(5_000, 10)
        for step in order:
            if step == "data":
                for record in records:
                    await (await producer.send(f"{name}-out", record.value))
            else:
                await admin.groups.commit(name, {where: Committed(records[-1].offset + 1)})
            if crashes:
                raise Crash


@pytest.mark.requirement("TXN-32")
@pytest.mark.parametrize(("order", "copies"), [(("data", "offsets"), 2), (("offsets", "data"), 0)])
async def test_without_transactions_either_order_is_wrong(
    broker: str, admin: Admin, order: Sequence[str], copies: int
) -> None:
    """Records first doubles them, positions first loses them."""
    name = f"torn-{order[0]}"
    await admin.create_topics([NewTopic(f"{name}-in", 1), NewTopic(f"{name}-out", 1)])
    async with Producer(broker) as producer:
        for number in range(20):
            await (await producer.send(f"{name}-in", b"%d" % number))
    with pytest.raises(Crash):
        await without_transactions(broker, admin, name, order, crashes=True)
    await without_transactions(broker, admin, name, order, crashes=False)

    seen = Counter(await read(broker, f"{name}-out"))
    assert {seen[b"%d" % number] for number in range(10)} == {copies}
