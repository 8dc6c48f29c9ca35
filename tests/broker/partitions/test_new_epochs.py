"""Writes to a leader whose epoch is raised while it leads, as when a follower dies.

The controller takes the follower out of the ISR and raises the leader epoch. Clients must not
notice: what is appended is answered when the smaller ISR has it, and what comes while the new epoch
is on its way to the disk is appended and answered afterwards.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.replica.leading import PartitionLeadership
from ottla.protocol.errors import ErrorCode
from tests.broker.support.followers import Replicated, replicated, until
from tests.broker.support.requests import batch, produce

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def next_epoch(site: Replicated, isr: tuple[int, ...]) -> PartitionLeadership:
    """What the controller says when it has changed the ISR."""
    known = site.partition.replica.leadership
    assert known is not None
    return PartitionLeadership(
        site.leader_id,
        known.leader_epoch + 1,
        known.partition_epoch + 1,
        isr,
        known.replicas,
        controller_epoch=known.controller_epoch,
    )


def without_second(site: Replicated) -> PartitionLeadership:
    """The next epoch, in which the second follower is not in sync any more."""
    return next_epoch(site, (site.leader_id, site.first))


class SlowSave:
    """Leader epochs reach the disk when ``let_go`` is called."""

    def __init__(self, site: Replicated) -> None:
        self._go = asyncio.Event()
        self._log = site.partition.log
        self._save: Callable[[], Awaitable[None]] = self._log.save_leader_epochs
        self._log.save_leader_epochs = self._wait  # type: ignore[method-assign]

    async def _wait(self) -> None:
        await self._go.wait()
        await self._save()

    def let_go(self) -> None:
        self._go.set()


@pytest.mark.parametrize("client_id", ["raw", None])
async def test_leader_answers_when_the_smaller_isr_has_the_batch(client_id: str | None) -> None:
    """By the short way and by the general one, which a null client id takes. NOT_LEADER_OR_FOLLOWER
    means "not stored" to clients, and some would store it again (R-20)."""
    async with replicated() as site, site.connect() as producer:
        await site.produced()
        request = produce(batch(b"x"), -1)
        producer.send(11, request, client_id)
        answer = asyncio.ensure_future(producer.answer(11, request))
        await until(lambda: site.partition.log.log_end_offset == 2)
        await site.partition.become(without_second(site))
        await asyncio.sleep(0.05)
        before = answer.done()
        await site.fetched(site.first, 2)
        part = (await answer).responses[0].partition_responses[0]

        assert not before
        assert (part.error_code, part.base_offset) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("client_id", ["raw", None])
async def test_what_comes_while_an_epoch_is_made_durable_is_answered_afterwards(
    client_id: str | None,
) -> None:
    """Refused, it would leave a gap in the sequence of a producer that has more in flight."""
    async with replicated() as site, site.connect() as producer:
        await site.produced()
        saving = SlowSave(site)
        turning = asyncio.ensure_future(site.partition.become(without_second(site)))
        await until(lambda: site.partition.is_becoming_leader)
        requests = [produce(batch(b"x"), 1), produce(batch(b"x"), -1)]
        for request in requests:
            producer.send(11, request, client_id)
        first = asyncio.ensure_future(producer.answer(11, requests[0]))
        await until(lambda: site.partition.log.log_end_offset == 3)
        await asyncio.sleep(0.05)
        before = first.done()
        saving.let_go()
        await turning
        await site.fetched(site.first, 3)
        answers = [await first, await producer.answer(11, requests[1])]
        parts = [one.responses[0].partition_responses[0] for one in answers]

        assert not before
        assert [part.error_code for part in parts] == [ErrorCode.NONE] * 2
        assert [part.base_offset for part in parts] == [1, 2]
        assert site.partition.replica.history.epochs.epoch_at(1) == site.partition.leader_epoch


async def test_what_was_in_flight_behind_a_refused_batch_comes_again_in_order() -> None:
    """The ISR was too small for a moment. Told that its sequence is out of order, librdkafka would
    number anew what it has in flight, and store a batch twice whose outcome it does not know."""
    async with replicated(min_insync_replicas="2") as site, site.connect() as producer:
        requests = [
            produce(batch(b"x", producer_id=7, producer_epoch=0, base_sequence=number), -1)
            for number in range(3)
        ]

        async def told(number: int) -> int:
            request = requests[number]
            producer.send(11, request)
            answer = (await producer.answer(11, request)).responses[0].partition_responses[0]
            return int(answer.error_code)

        producer.send(11, requests[0])
        await until(lambda: site.partition.log.log_end_offset == 1)
        await site.partition.become(next_epoch(site, (site.leader_id,)))
        appended = (await producer.answer(11, requests[0])).responses[0].partition_responses[0]
        refused = await told(1)
        await site.partition.become(without_second(site))
        behind = await told(2)

        assert appended.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert (refused, behind) == (ErrorCode.NOT_ENOUGH_REPLICAS,) * 2
        for request in requests:
            producer.send(11, request)
        await until(lambda: site.partition.log.log_end_offset == 3)
        await site.fetched(site.first, 3)
        parts = [
            (await producer.answer(11, request)).responses[0].partition_responses[0]
            for request in requests
        ]
        assert [part.error_code for part in parts] == [ErrorCode.NONE] * 3
        assert [part.base_offset for part in parts] == [0, 1, 2]
