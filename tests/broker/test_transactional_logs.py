"""Transactions in the log of one broker: what outlives it, and what readers are told after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from tests.broker.support.brokers import DATA, Brokers
from tests.broker.support.requests import TOPIC
from tests.broker.support.transactional_log import PATIENT, View, end, make_topic, view, write

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NONE = ErrorCode.NONE
SEGMENT_BYTES = "1024"


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    made = Brokers(1, PATIENT)
    await made.start()
    yield made
    await made.stop()


async def write_over_segments(brokers: Brokers) -> View:
    """Two aborted transactions over three segments and more, and committed ones in between."""
    value = bytes(300)
    for number in range(12):
        assert await write(brokers, number, b"aborted" + value, 1) is NONE
        assert await write(brokers, number, b"committed %d" % number, 2) is NONE
        if number % 3 == 2:
            assert await end(brokers, commit=True, producer_id=2) is NONE
        if number == 5:
            assert await end(brokers, commit=False, producer_id=1) is NONE
    assert await end(brokers, commit=False, producer_id=1) is NONE
    assert len(brokers.partition(1, TOPIC).log.segments) > 3
    return View([b"committed %d" % number for number in range(12)], 30)


async def delete_indexes(brokers: Brokers) -> int:
    """Removes the transaction indexes and returns their number."""
    disk = brokers.disks[1]
    directory = f"{DATA}/{TOPIC}-0"
    names = [name for name in await disk.scan(directory) if name.endswith(".txnindex")]
    for name in names:
        await disk.unlink(f"{directory}/{name}")
    return len(names)


@pytest.mark.requirement("TXN-30")
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_deleted", [True, False])
async def test_what_was_aborted_over_several_segments_stays_hidden(
    brokers: Brokers, is_clean: bool, is_deleted: bool
) -> None:
    """After a stop or a kill, and if the list of what was aborted is gone (T-18)."""
    await make_topic(brokers, 1, segment_bytes=SEGMENT_BYTES)
    expected = await write_over_segments(brokers)
    before = await view(brokers)
    if is_clean:
        await brokers.stop_one(1)
    else:
        await brokers.kill(1)
    if is_deleted:
        assert await delete_indexes(brokers) == 2
    await brokers.start_one(1)
    await brokers.until(lambda: brokers.leader(TOPIC) == 1)

    assert before == expected
    assert await view(brokers) == expected


async def test_an_open_transaction_outlives_the_broker(brokers: Brokers) -> None:
    """It stays invisible, and its marker still finds it."""
    await make_topic(brokers, 1)
    assert await write(brokers, 0, b"first") is NONE
    assert await write(brokers, 0, b"other", 1) is NONE
    assert await end(brokers, commit=True, producer_id=1) is NONE
    await brokers.kill(1)
    await brokers.start_one(1)
    await brokers.until(lambda: brokers.leader(TOPIC) == 1)
    hidden = await view(brokers)
    # The transaction is open here, so the next batch needs no verification.
    again = await write(brokers, 1, b"second")
    ended = await end(brokers, commit=True)

    assert hidden == View([], 0)
    assert (again, ended) == (NONE, NONE)
    assert await view(brokers) == View([b"first", b"other", b"second"], 5)


async def test_producers_with_an_open_transaction_are_not_forgotten(brokers: Brokers) -> None:
    """Forgotten, their marker would end nothing, and readers would wait for ever (T-06)."""
    await make_topic(brokers, 1)
    await write(brokers, 0, b"x")
    producers = brokers.partition(1, TOPIC).replica.history.producers
    for now_ms in (0.0, 1e12):
        producers.expire(now_ms, 1)

    assert await end(brokers, commit=True) is NONE
    assert await view(brokers) == View([b"x"], 2)
