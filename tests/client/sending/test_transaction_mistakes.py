"""A wrong argument or a defect within a transaction ends only that call or transaction."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.records.committed import Committed
from ottla.client.sending.transaction_link import TransactionWire
from ottla.wire.errors import ClientClosed
from tests.client.support.transactional import INPUT, one, only_log, producer_of

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster

NO_TEXT: Any = b"x"


@pytest.mark.parametrize(
    ("offsets", "group", "sentence"),
    [
        ([INPUT], "g", "offsets to commit are given as a dict by partition"),
        ({"in": 1}, "g", "a partition is a topic and a number, not 'in'"),
        ({INPUT: "1"}, "g", "an offset to commit is a whole number, not '1'"),
        ({INPUT: -1}, "g", "an offset to commit is 0 or more, not -1"),
        ({INPUT: Committed(-1)}, "g", "an offset to commit is 0 or more, not -1"),
        ({INPUT: Committed(1, 2**31)}, "g", "a leader epoch is 2147483647 at most"),
        ({INPUT: Committed(1, -1, NO_TEXT)}, "g", "stored with an offset is a text, not b'x'"),
        ({INPUT: 1}, 5, "a group is called by a text, not 5"),
        ({INPUT: 1}, "", "a group has to have a name"),
    ],
)
async def test_offsets_that_cannot_be_stored_end_no_transaction(
    cluster: ToyCluster, offsets: Any, group: Any, sentence: str
) -> None:
    """The request could not be written, and the producer stopped with all it had."""
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("out", b"1", partition=0)
            with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
                await producer.send_offsets_to_transaction(offsets, group)
        await one(producer, b"2")
    assert only_log(cluster) == [b"1", b"2"]


async def test_plain_pairs_are_partitions_in_a_transaction(cluster: ToyCluster) -> None:
    """Plain pairs are accepted here as in other calls."""
    pair: Any = ("in", 0)
    async with producer_of(cluster) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_offsets_to_transaction({pair: 7}, "g")
    assert cluster.transactions.committed_offsets == {"g": {INPUT: 7}}


async def test_a_defect_is_told_once_and_holds_up_no_close(
    cluster: ToyCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The producer used to hit and report the defect again and again."""

    async def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    async with asyncio.timeout(10):
        async with producer_of(cluster) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            monkeypatch.setattr(TransactionWire, "ask", fail)
            with pytest.raises(ClientClosed, match="the producer has stopped: a defect"):
                await producer.send_offsets_to_transaction({INPUT: 1}, "g")
            await asyncio.sleep(0.1)
    assert [line.getMessage() for line in caplog.records if line.levelname == "ERROR"] == [
        "the producer stops: a defect"
    ]
