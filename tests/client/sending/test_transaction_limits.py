"""The limits of transactions that docs/transactions.md lists, each shown by a test."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, Consumer, ConsumerConfig, Isolation, NewTopic, Producer, TopicPartition
from tests.broker.support.brokers import Brokers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGE = Path(__file__).parents[3] / "docs" / "transactions.md"
# Cleaning and retention at once instead of by and by.
HASTY = {"log.retention.check.interval.ms": "100", "log.cleaner.backoff.ms": "100"}
SMALL_SEGMENTS = {"segment.bytes": "1048576"}
FILLER = b"x" * 60_000


@pytest.fixture
async def bootstrap() -> AsyncIterator[str]:
    """A broker that cleans at once."""
    brokers = Brokers(1, HASTY)
    await brokers.start()
    (address,) = brokers.bootstrap
    yield address
    await brokers.stop()


async def create(bootstrap: str, partitions: int = 1, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    async with Admin(bootstrap) as admin:
        await admin.create_topic(NewTopic("t", partitions, 1, SMALL_SEGMENTS | named))


async def transact(bootstrap: str, *records: tuple[bytes, bytes, int]) -> None:
    """Commit one transaction of these keys and values in these partitions."""
    async with Producer(bootstrap, transactional_id="id") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for key, value, partition in records:
                await producer.send("t", value, key, partition=partition)


async def read(
    bootstrap: str, *partitions: int, start: int | None = None
) -> list[tuple[bytes | None, bytes | None]]:
    """Records that a reader of committed records gets from there on, without filler."""
    wanted = [TopicPartition("t", number) for number in partitions or (0,)]
    found = []
    config = ConsumerConfig(isolation=Isolation.READ_COMMITTED, offset_reset="earliest")
    async with Consumer(bootstrap, config) as consumer:
        ends = await consumer.end_offsets(wanted)
        consumer.assign(wanted)
        consumer.seek_to_beginning()
        if start is not None:
            consumer.seek(wanted[0], start)
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            found += await consumer.poll(1_000)
    return [(one.key, one.value) for one in found if one.value != FILLER]


async def first_offset(bootstrap: str) -> int:
    async with Consumer(bootstrap) as consumer:
        where = TopicPartition("t", 0)
        return (await consumer.offsets_at({where: -2}))[where].offset


async def fill(bootstrap: str) -> None:
    """Enough that the segment before is closed."""
    async with Producer(bootstrap) as producer:
        for number in range(40):
            await producer.send("t", FILLER, b"filler %d" % number, partition=0)


@pytest.mark.requirement("TXN-36")
async def test_compaction_can_leave_part_of_a_transaction(bootstrap: str) -> None:
    """Limit 1: a newer version of one of its keys has replaced the older one."""
    await create(bootstrap, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    await transact(bootstrap, (b"a", b"old", 0), (b"b", b"old", 0))
    whole = await read(bootstrap)
    await transact(bootstrap, (b"a", b"new", 0))
    await fill(bootstrap)
    async with asyncio.timeout(90):
        while (b"a", b"old") in await read(bootstrap):
            await asyncio.sleep(0.1)

    assert whole == [(b"a", b"old"), (b"b", b"old")]
    assert sorted(await read(bootstrap)) == [(b"a", b"new"), (b"b", b"old")]


@pytest.mark.requirement("TXN-37")
async def test_retention_can_leave_part_of_a_transaction(bootstrap: str) -> None:
    """Limit 2: the transaction's first segment was removed."""
    await create(bootstrap, retention_bytes="500000")
    filler = [(b"filler", FILLER, 0)] * 30
    await transact(bootstrap, (b"a", b"1", 0), *filler, (b"b", b"2", 0))
    async with asyncio.timeout(90):
        while await first_offset(bootstrap) == 0:
            await asyncio.sleep(0.1)

    assert await read(bootstrap) == [(b"b", b"2")]


@pytest.mark.requirement("TXN-38")
async def test_a_seek_can_skip_part_of_a_transaction(bootstrap: str) -> None:
    """Limit 3: who begins in its middle gets the rest."""
    await create(bootstrap)
    await transact(bootstrap, (b"a", b"1", 0), (b"b", b"2", 0), (b"c", b"3", 0))

    assert await read(bootstrap, start=1) == [(b"b", b"2"), (b"c", b"3")]


@pytest.mark.requirement("TXN-39")
async def test_a_reader_of_one_partition_sees_that_part(bootstrap: str) -> None:
    """Limit 4: a reader gets only the partitions that it has asked for."""
    await create(bootstrap, 2)
    await transact(bootstrap, (b"a", b"1", 0), (b"b", b"2", 1))

    assert await read(bootstrap, 1) == [(b"b", b"2")]
    assert sorted(await read(bootstrap, 0, 1)) == [(b"a", b"1"), (b"b", b"2")]


@pytest.mark.requirement("TXN-40")
async def test_an_aborted_transaction_takes_back_nothing_outside_of_the_cluster(
    bootstrap: str, tmp_path: Path
) -> None:
    """Limit 5: a database, a mail or a file is another system, and the page says so."""
    await create(bootstrap)
    outside = tmp_path / "charged"
    async with Producer(bootstrap, transactional_id="id") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("t", b"charged", partition=0))
        outside.write_text("charged")
        await producer.abort_transaction()

    assert await read(bootstrap) == []
    assert outside.read_text() == "charged"
    page = " ".join(PAGE.read_text().split())
    (row,) = re.findall(r"\| Other systems \|[^|]*\|", page)
    assert "A database write, a mail or an HTTP call is not part of the transaction" in row


def theory() -> dict[str, str]:
    """The points of the page's section on theory, by their first words."""
    _, _, section = PAGE.read_text("utf-8").partition("## Relation to theory\n")
    section, _, _ = section.partition("\n## ")
    points = [" ".join(one.split()) for one in section.split("\n- ")[1:]]
    return {one.split("**")[1]: one for one in points}


@pytest.mark.requirement("BGD-12")
@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("two-phase commit", "Not two-phase commit among participants."),
        ("Three-phase commit", "Three-phase commit"),
        ("Paxos", "Not a consensus of followers."),
        ("FLP", "FLP"),
    ],
)
def test_the_page_says_which_protocols_are_not_relied_upon(name: str, head: str) -> None:
    """A user who relies on more than is promised finds out too late."""
    point = theory()[head]

    assert name in point
    assert re.search(r"\b(not|no|never)\b", point.lower())


@pytest.mark.requirement("TXN-36")
@pytest.mark.parametrize(
    "limit", ["Compacted topics", "Retention", "Seek", "Consuming some of the partitions"]
)
def test_the_page_lists_the_limits_that_the_tests_above_show(limit: str) -> None:
    """What is not promised has to be read somewhere before it happens."""
    assert f"\n| {limit} |" in PAGE.read_text("utf-8")


@pytest.mark.requirement("BGD-12")
def test_the_page_says_why_one_dead_partition_blocks_no_other() -> None:
    """What it says is what ``test_a_dead_partition_delays_only_itself`` sees: no partition is
    asked, the coordinator's one write decides, and only the dead partition's marker waits."""
    point = theory()["Not two-phase commit among participants."]

    for words in ("no participant votes", "One write of the coordinator", "delays only its own"):
        assert words in point
