"""Transactions seen from the partitions of a cluster: who writes, who ends, what readers get."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.settings.config import ClientConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.control import ControlType, read_marker
from ottla.protocol.records.record import read_records
from tests.broker.support.requests import TOPIC, fetched
from tests.broker.support.transactions import in_transaction, marked, produced
from tests.support.raw_client import RawClient
from tests.support.transactions import admit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.broker.support.brokers import Brokers

# Replicas leave the ISR only when the test wants it.
PATIENT = {
    "replica.lag.time.max.ms": "60000",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class View(NamedTuple):
    """What a reader of committed records gets, and how far it comes."""

    values: list[bytes]
    last_stable_offset: int


async def make_topic(brokers: Brokers, replicas: int, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    async with Admin(",".join(brokers.bootstrap), ClientConfig()) as admin:
        await admin.create_topic(NewTopic(TOPIC, 1, replicas, named))
    await brokers.until(lambda: brokers.leader(TOPIC) > 0)


@asynccontextmanager
async def at(brokers: Brokers, node_id: int) -> AsyncIterator[RawClient]:
    """A connection to that broker."""
    address = brokers.alive[node_id].address
    async with RawClient(address.host, address.port) as client:
        yield client


async def write(
    brokers: Brokers, sequence: int, value: bytes, producer_id: int = 4000, epoch: int = 0
) -> ErrorCode:
    """One transactional record, as if the coordinator had allowed it."""
    leader = brokers.leader(TOPIC)
    partition = brokers.partition(leader, TOPIC)
    state = partition.replica.history.producers.get(producer_id)
    if state is None or not state.has_open_transaction:
        admit(partition, producer_id, epoch)
    async with at(brokers, leader) as client:
        records = in_transaction(sequence, value, producer_id, epoch)
        answer = await produced(client, records, acks=1)
        return ErrorCode(answer.error_code)


async def end(
    brokers: Brokers, *, commit: bool, producer_id: int = 4000, epoch: int = 0, **more: int
) -> ErrorCode:
    """The marker, as a coordinator sends it."""
    async with at(brokers, brokers.leader(TOPIC)) as client:
        (error,) = await marked(client, commit=commit, producer_id=producer_id, epoch=epoch, **more)
        return error


async def view(brokers: Brokers, node_id: int = -1) -> View:
    """All that a reader of committed records gets from the leader, as a consumer filters it."""
    offset, stable = 0, -1
    values: list[bytes] = []
    async with at(brokers, brokers.leader(TOPIC) if node_id < 0 else node_id) as client:
        while True:
            answer = await fetched(client, offset, isolation_level=1, partition_bytes=100)
            assert answer.error_code == ErrorCode.NONE
            stable = answer.last_stable_offset
            aborted = [(one.first_offset, one.producer_id) for one in answer.aborted_transactions]
            hidden: set[int] = set()
            batches = list(iterate_batches(answer.records))
            if not batches:
                return View(values, stable)
            for batch in batches:
                hidden |= {
                    producer_id for first, producer_id in aborted if first <= batch.last_offset
                }
                aborted = [one for one in aborted if one[0] > batch.last_offset]
                offset = batch.next_offset
                if batch.is_control:
                    marker = read_marker(batch)
                    if marker is not None and marker.control_type is ControlType.ABORT:
                        hidden.discard(batch.producer_id)
                elif not (batch.is_transactional and batch.producer_id in hidden):
                    values += [bytes(one.value or b"") for one in read_records(batch, 1 << 20)]


async def stop_fetching(brokers: Brokers, *node_ids: int) -> None:
    """What is written from now on does not reach these brokers."""
    await asyncio.gather(*(brokers.alive[node_id].parts.fetchers.stop() for node_id in node_ids))


def others(brokers: Brokers, leader: int) -> list[int]:
    """Those who live beside it."""
    return [node_id for node_id in brokers.alive if node_id != leader]


def is_replicated(brokers: Brokers, topic: str) -> bool:
    """Whether all that the leader has is committed."""
    replica = brokers.partition(brokers.leader(topic), topic).replica
    return replica.high_watermark == replica.log_end_offset
