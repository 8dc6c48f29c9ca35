"""Single records into a topic of one partition, and all that is in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.record import read_records
from tests.broker.support.requests import fetched
from tests.cluster.support.wire import raw, write

if TYPE_CHECKING:
    from tests.cluster.support.real import RealCluster

# On a busy machine a leader may not have heard yet that it is one.
REFUSED_BEFORE = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def leader_of(cluster: RealCluster, topic: str) -> str:
    """Its address."""
    return cluster.brokers[cluster.newest(topic)[0].leader].address


def put(cluster: RealCluster, topic: str, value: str, acks: int = -1) -> ErrorCode:
    """How the leader answers."""
    address = leader_of(cluster, topic)
    return asyncio.run(write(address, value.encode(), topic=topic, acks=acks))


def put_for_sure(cluster: RealCluster, topic: str, value: str) -> None:
    """With acks=all, as soon as the in-sync set has found itself."""
    answers: list[ErrorCode] = []

    def is_done() -> bool:
        # Refused before it is written: it may be repeated.
        answers.append(put(cluster, topic, value))
        assert answers[-1] in REFUSED_BEFORE or answers[-1] == ErrorCode.NONE, answers[-1]
        return answers[-1] == ErrorCode.NONE

    cluster.wait_for(f"{value} is in {topic}", is_done)


def values_of(cluster: RealCluster, topic: str) -> list[str]:
    """All that consumers can read, up to the high watermark."""

    async def read(address: str) -> list[str] | str:
        async with raw(address) as client:
            answer = await fetched(client, 0, topic=topic)
        if answer.error_code != ErrorCode.NONE:
            return f"{address}: {ErrorCode(answer.error_code)!r}"
        batches = iterate_batches(answer.records or b"")
        records = [one for part in batches for one in read_records(part, 1 << 20)]
        if (records[-1].offset + 1 if records else 0) != answer.high_watermark:
            return f"{address}: {len(records)} records below {answer.high_watermark}"
        return [bytes(record.value or b"").decode() for record in records]

    answers: list[list[str] | str] = []

    def is_read() -> bool:
        answers.append(asyncio.run(read(leader_of(cluster, topic))))
        if isinstance(answers[-1], str):
            # The leader may be about to change.
            cluster.tell(answers[-1])
        return not isinstance(answers[-1], str)

    cluster.wait_for(f"{topic} is read", is_read)
    found = answers[-1]
    assert isinstance(found, list)
    return found
