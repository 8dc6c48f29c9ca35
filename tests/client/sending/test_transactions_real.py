"""Transactions of the client against a real broker, and what administrators see of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla import (
    Admin,
    ClientError,
    Committed,
    Consumer,
    ConsumerConfig,
    ErrorCode,
    Isolation,
    NewTopic,
    Producer,
    ProducerConfig,
    ProducerFenced,
    ProducerUnusable,
    RequestRefused,
    TopicPartition,
)
from ottla.client.administration.features import FeatureUpgrade
from ottla.client.administration.transaction_search import TransactionHealth, find_open
from tests.client.support.sites import soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ottla.client.administration.transaction_requests import ProducerView

STRICT = ConsumerConfig(isolation=Isolation.READ_COMMITTED, call_timeout_ms=20_000)


@pytest.fixture
async def admin(broker: str) -> AsyncIterator[Admin]:
    """An admin of the running broker."""
    async with Admin(broker) as connected:
        yield connected


async def values(broker: str, isolation: Isolation, *partitions: TopicPartition) -> list[bytes]:
    """All values that are visible now."""
    found: list[bytes] = []
    async with Consumer(broker, ConsumerConfig(isolation=isolation)) as consumer:
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            found += [bytes(record.value or b"") for record in await consumer.poll(1_000)]
    return found


@pytest.mark.requirement("TXN-01", "TXN-12", "TXN-28", "TXN-29", "TXN-30")
async def test_what_is_committed_is_seen_and_nothing_else(broker: str, admin: Admin) -> None:
    """By readers of committed records; others see everything but markers."""
    await admin.create_topic(NewTopic("tx-seen", 2))
    partitions = [TopicPartition("tx-seen", number) for number in range(2)]
    async with Producer(broker, transactional_id="tx-seen") as producer:
        await producer.init_transactions()
        for number in range(6):
            await producer.begin_transaction()
            for partition in range(2):
                await producer.send("tx-seen", b"%d" % number, partition=partition)
            await producer.flush()
            if number % 3 == 1:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()

    kept = [b"0", b"0", b"2", b"2", b"3", b"3", b"5", b"5"]
    assert sorted(await values(broker, Isolation.READ_COMMITTED, *partitions)) == kept
    assert len(await values(broker, Isolation.READ_UNCOMMITTED, *partitions)) == 12


@pytest.mark.requirement("TXN-29")
async def test_nothing_is_seen_before_the_commit(broker: str, admin: Admin) -> None:
    """After the commit all records are visible, in both partitions."""
    await admin.create_topic(NewTopic("tx-hidden", 2))
    partitions = [TopicPartition("tx-hidden", number) for number in range(2)]
    async with Producer(broker, transactional_id="tx-hidden") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for where in partitions:
                await (await producer.send(*where[:1], b"x", partition=where.partition))
            before = await values(broker, Isolation.READ_COMMITTED, *partitions)

    assert before == []
    assert await values(broker, Isolation.READ_COMMITTED, *partitions) == [b"x", b"x"]


@pytest.mark.requirement("TXN-02", "TXN-03", "TXN-04", "TXN-13")
async def test_a_successor_ends_what_its_predecessor_left(broker: str, admin: Admin) -> None:
    """The predecessor can never write again."""
    await admin.create_topic(NewTopic("tx-heir", 1))
    async with Producer(broker, transactional_id="tx-heir") as old:
        await old.init_transactions()
        await old.begin_transaction()
        await (await old.send("tx-heir", b"old"))
        async with Producer(broker, transactional_id="tx-heir") as new:
            await new.init_transactions()
            async with new.transaction():
                await new.send("tx-heir", b"new")
        late = await old.send("tx-heir", b"late")
        with pytest.raises(RequestRefused):
            await late
        with pytest.raises(ProducerFenced):
            await old.commit_transaction()

    seen = await values(broker, Isolation.READ_COMMITTED, TopicPartition("tx-heir", 0))
    assert seen == [b"new"]


@pytest.mark.requirement("TXN-20", "TXN-21", "TXN-31")
async def test_a_position_moves_with_its_transaction(broker: str, admin: Admin) -> None:
    """Until then the old one is there; who must not read twice waits for the new one (KIP-447)."""
    await admin.create_topic(NewTopic("tx-moved", 1))
    where = TopicPartition("tx-moved", 0)
    async with (
        Producer(broker, transactional_id="tx-moved") as producer,
        Consumer(broker, STRICT) as strict,
    ):
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_offsets_to_transaction({where: 3}, "tx-movers")
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({where: Committed(7, 0, "why")}, "tx-movers")
        before = await admin.groups.offsets("tx-movers", [where])
        waiting = asyncio.ensure_future(strict.committed("tx-movers", [where]))
        await asyncio.sleep(0.3)
        was_waiting = not waiting.done()
        await producer.commit_transaction()
        after = await waiting
        async with producer.transaction():
            await producer.send_offsets_to_transaction({where: 9}, "tx-movers")
            await producer.abort_transaction()

        assert before == {where: Committed(3, -1, "")}
        assert was_waiting
        assert after == {where: Committed(7, 0, "why")}
        assert await strict.committed("tx-movers", [where]) == after


@pytest.mark.requirement("TXN-48")
async def test_a_timeout_above_the_brokers_is_refused(broker: str) -> None:
    """transaction.max.timeout.ms protects readers from an open end."""
    async with Producer(broker, transactional_id="long", transaction_timeout_ms=10**9) as producer:
        with pytest.raises(ProducerUnusable) as raised:
            await producer.init_transactions()

    assert raised.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.requirement("TXN-53", "TXN-57", "TXN-58")
async def test_who_takes_too_long_is_aborted_and_cannot_commit(broker: str, admin: Admin) -> None:
    """Readers go on; records that the producer sends after the abort are not returned."""
    await admin.create_topic(NewTopic("tx-late", 1))
    where = TopicPartition("tx-late", 0)
    config = ProducerConfig(transactional_id="tx-late", transaction_timeout_ms=2_000)
    async with Producer(broker, config) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("tx-late", b"x"))
        for _ in range(300):
            (ends,) = (await admin.list_offsets({where: -1}, Isolation.READ_COMMITTED)).values()
            if not isinstance(ends, Exception) and ends.offset > 0:
                break
            await asyncio.sleep(0.1)
        late = await producer.send("tx-late", b"late")
        with pytest.raises(RequestRefused, match="INVALID_PRODUCER_EPOCH"):
            await late
        with pytest.raises(ProducerFenced):
            await producer.commit_transaction()

    assert await values(broker, Isolation.READ_COMMITTED, where) == []


def first_offsets(views: Sequence[ProducerView] | ClientError) -> list[int | None]:
    """First offsets of the open transactions of a partition."""
    assert not isinstance(views, ClientError)
    return [one.first_offset for one in views]


async def test_administrators_see_who_has_a_transaction(broker: str, admin: Admin) -> None:
    """KIP-664: by transactional id at the coordinator, by producer id at the partition."""
    await admin.create_topic(NewTopic("tx-watched", 2))
    where = TopicPartition("tx-watched", 1)
    async with Producer(broker, transactional_id="tx-watched") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("tx-watched", b"x", partition=1))
        listed = await admin.transactions.list_transactions(["Ongoing"], pattern="tx-wat.*")
        views = await admin.transactions.describe_transactions(["tx-watched", "tx-nobody"])
        producers = await admin.transactions.describe_producers([where])
        search = await find_open(admin.transactions, [where], 0)
        await producer.commit_transaction()
        # The verdict is written, and the marker follows.
        await soon(
            lambda: admin.transactions.describe_producers([where]),
            lambda after: first_offsets(after[where]) == [None],
        )

    (listing,) = listed
    view = views["tx-watched"]
    assert not isinstance(view, RequestRefused)
    assert (listing.transactional_id, listing.state) == ("tx-watched", "Ongoing")
    assert listing.producer_id == view.producer_id
    assert (view.state, view.partitions) == ("Ongoing", (where,))
    assert view.start_time_ms is not None
    missing = views["tx-nobody"]
    assert isinstance(missing, RequestRefused)
    assert missing.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    open_ones = producers[where]
    assert isinstance(open_ones, list)
    assert [(one.producer_id, one.first_offset) for one in open_ones] == [(view.producer_id, 0)]
    assert [one.standing for one in search.found] == [TransactionHealth.OPEN]


async def test_features_are_described_and_checked(admin: Admin) -> None:
    """The level of transaction.version is what clients follow; asking can be only asking."""
    (feature,) = [
        one for one in await admin.features.describe_features() if one.name == "transaction.version"
    ]
    await admin.features.update_features(
        {"transaction.version": 1}, FeatureUpgrade.SAFE_DOWNGRADE, validate_only=True
    )
    with pytest.raises(RequestRefused):
        await admin.features.update_features({"no.such.feature": 1})
    with pytest.raises(RequestRefused):
        await admin.features.update_features({"transaction.version": 99})

    assert (feature.level_min, feature.level_max, feature.level) == (0, 2, 2)
    assert feature in await admin.features.describe_features()
