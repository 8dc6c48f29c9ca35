"""Rebalances: hearing of partitions that come and go, and the protocols that move them.

    python examples/groups/rebalances.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import ottla

if TYPE_CHECKING:
    from collections.abc import Sequence

# %% A cluster in this process, or the one whose address is given. In the newer protocol it is the
# brokers who say how often members send heartbeats, and so how soon they hear of each other.
HEARTBEATS = {f"group.consumer.{which}heartbeat.interval.ms": 100 for which in ("", "min.")}
cluster = ottla.Cluster(settings=HEARTBEATS)
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers


# %% A listener is told while its consumer polls, between two records.
class Diary(ottla.RebalanceListener):
    """Writes down what happens."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_assigned(self, partitions: Sequence[ottla.TopicPartition]) -> None:
        """A seek here goes before the committed position."""
        self.lines += [f"+{where.partition}" for where in partitions]

    async def on_revoked(self, partitions: Sequence[ottla.TopicPartition]) -> None:
        """The last moment to commit what was read of them; may be a coroutine."""
        self.lines += [f"-{where.partition}" for where in partitions]


# %% The three ways: "eager" gives everything up and gets its share anew; "cooperative" and the
# newer protocol (KIP-848, in which the brokers divide the partitions) take away what moves.
async def watch(topic: str, config: ottla.ConsumerConfig) -> list[str]:
    """What the first member is told while a second one comes."""
    async with ottla.Admin(servers) as admin:
        await admin.create_topic(ottla.NewTopic(topic, 2, 1))
    diary = Diary()
    async with (
        ottla.Consumer(servers, config, group_id=topic) as first,
        ottla.Consumer(servers, config, group_id=topic) as second,
    ):
        await first.subscribe([topic], diary)
        while len(first.assignment) < 2:
            await first.poll(50)
        await second.subscribe([topic])
        while not len(first.assignment) == len(second.assignment) == 1:
            await asyncio.gather(first.poll(50), second.poll(50))
        return list(diary.lines)


EAGER = ottla.ConsumerConfig(assignors=("range",), heartbeat_interval_ms=100)
COOPERATIVE = ottla.ConsumerConfig(assignors=("cooperative-sticky",), heartbeat_interval_ms=100)
NEWER = ottla.ConsumerConfig(group_protocol="consumer")

eager = asyncio.run(watch("eager", EAGER))
print(eager)
# -> ['+0', '+1', '-0', '-1', '+...']
cooperative = asyncio.run(watch("cooperative", COOPERATIVE))
print(cooperative)
# -> ['+0', '+1', '-...']
newer = asyncio.run(watch("newer", NEWER))
print(newer)
# -> ['+0', '+1', '-...']
assert [line[0] for line in eager] == ["+", "+", "-", "-", "+"]
assert [line[0] for line in cooperative] == [line[0] for line in newer] == ["+", "+", "-"]
cluster.stop()
