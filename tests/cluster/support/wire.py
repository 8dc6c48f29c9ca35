"""What single brokers of a real cluster answer, each asked over its own connection.

A client would hide what these tests are about: it retries with another broker without reporting
either.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.support.requests import batch, produced
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Awaitable

Answer = TypeVar("Answer")

PATIENCE_S = 10.0
# Cut off, stopped, or not there.
SILENCE = (OSError, EOFError, TimeoutError)


class Told(NamedTuple):
    """A broker's view of one partition."""

    leader: int
    leader_epoch: int
    isr: frozenset[int]
    replicas: frozenset[int]

    @property
    def is_whole(self) -> bool:
        return self.leader >= 0 and self.isr == self.replicas


class View(NamedTuple):
    """A broker's view of the cluster and of one topic."""

    controller_id: int
    broker_ids: frozenset[int]
    partitions: dict[int, Told]


def raw(address: str) -> RawClient:
    """A connection to the broker there, for ``async with``."""
    host, _, port = address.rpartition(":")
    return RawClient(host, int(port))


async def view_of(address: str, topic: str | None = None) -> View:
    """Raises OSError, EOFError or TimeoutError."""
    wanted = [] if topic is None else [MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    async with asyncio.timeout(PATIENCE_S), raw(address) as client:
        answer = await client.call(12, request)
    parts = [part for found in answer.topics for part in found.partitions]
    return View(
        answer.controller_id,
        frozenset(broker.node_id for broker in answer.brokers),
        {
            part.partition_index: Told(
                part.leader_id,
                part.leader_epoch,
                frozenset(part.isr_nodes),
                frozenset(part.replica_nodes),
            )
            for part in parts
        },
    )


async def write(
    address: str, value: bytes, *, topic: str, partition: int = 0, acks: int = -1
) -> ErrorCode:
    """How a broker answers a single record. Raises OSError, EOFError or TimeoutError."""
    async with asyncio.timeout(PATIENCE_S), raw(address) as client:
        answer = await produced(client, batch(value), acks=acks, topic=topic, partition=partition)
    return ErrorCode(answer.error_code)


async def spoken(asked: Awaitable[Answer]) -> Answer | str:
    """The answer, or the text of the error."""
    try:
        return await asked
    except SILENCE as error:
        return repr(error)
