"""kill -9 in the middle of commits: what was acknowledged is never lost and never goes back.

Several groups commit ever larger positions as fast as they are acknowledged, some of them through
group members of a real client, some from outside. After each kill and restart every position must
lie between the last one that was acknowledged and the last one that was sent.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.records.committed import Committed
from ottla.client.settings.config import ClientConfig
from ottla.protocol.ids import TopicPartition
from ottla.wire.backoff import Backoff
from ottla.wire.errors import ClientError
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "read"
PARTITIONS = 4
GROUPS = 6
# The offsets topic rolls and is compacted while it is killed.
OPTIONS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "65536",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.1",
}


class Position:
    """One group's: each round commits the same number to all partitions."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.sent = 0
        self.acknowledged = 0

    def check(self, offsets: dict[TopicPartition, Committed]) -> None:
        """Compare what a fresh broker says with what is known."""
        for number in range(PARTITIONS):
            found = offsets.get(TopicPartition(TOPIC, number))
            offset = 0 if found is None else found.offset
            assert self.acknowledged <= offset <= self.sent, (
                f"{self.group_id} partition {number}: {offset} is not in "
                f"{self.acknowledged}..{self.sent}"
            )
            if found is not None:
                assert found.metadata == str(offset)
                assert found.leader_epoch == 7
            # What was seen once may not be lost later.
            self.acknowledged = max(self.acknowledged, min(offset, self.sent))


async def commit_for_ever(admin: Admin, position: Position) -> None:
    """Until the broker dies under it, or for ever."""
    while True:
        position.sent += 1
        number = position.sent
        committed = Committed(number, 7, str(number))
        try:
            results = await admin.groups.commit(
                position.group_id,
                {TopicPartition(TOPIC, part): committed for part in range(PARTITIONS)},
            )
        except ClientError:
            return
        refusals = [one for one in results.values() if one is not None]
        assert not refusals, refusals
        position.acknowledged = number


async def one_life(broker: BrokerProcess, positions: list[Position], alive_s: float) -> None:
    """Check, commit, and be killed while committing."""
    config = ClientConfig(
        request_timeout_ms=10_000, call_timeout_ms=1_000, reconnect_backoff=Backoff(10, 50)
    )
    async with Admin(broker.address) as patient, Admin(broker.address, config) as admin:
        for position in positions:
            position.check(await patient.groups.offsets(position.group_id))
        begun = sum(position.acknowledged for position in positions)
        writers = [asyncio.create_task(commit_for_ever(admin, one)) for one in positions]
        async with asyncio.timeout(60):
            while sum(position.acknowledged for position in positions) == begun:
                await asyncio.sleep(0.005)
        await asyncio.sleep(alive_s)
        broker.kill()
        for position, writer in zip(positions, writers, strict=True):
            done, _ = await asyncio.wait([writer], timeout=60)
            assert done, f"{position.group_id} still commits to a dead broker"
            writer.result()


def kill_repeatedly(folder: Path, cycles: int, seed: int) -> int:
    """Returns how many commits were acknowledged in all."""
    chance = random.Random(seed)
    broker = BrokerProcess(folder / "data", options=OPTIONS).start()
    positions = [Position(f"group-{number}") for number in range(GROUPS)]

    async def prepare() -> None:
        async with Admin(broker.address) as admin:
            await admin.create_topic(NewTopic(TOPIC, PARTITIONS))

    try:
        asyncio.run(prepare())
        for _ in range(cycles):
            asyncio.run(one_life(broker, positions, 0.05 + chance.random() * 0.5))
            broker.start()
        asyncio.run(one_life(broker, positions, 0))
    finally:
        if broker.is_running:
            broker.stop()
    return sum(position.acknowledged for position in positions)


@pytest.mark.requirement("GRP-03", "GRP-06", "GRP-08", "ARC-12")
def test_five_kills_lose_no_commit(tmp_path: Path) -> None:
    """The short form of the next test."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")

    # At least once in each life.
    assert kill_repeatedly(tmp_path, 5, seed) > 5


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_kills_lose_no_commit(tmp_path: Path) -> None:
    """A window of a few instructions needs many tries to be hit."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")

    assert kill_repeatedly(tmp_path, 100, seed) > 2_000
