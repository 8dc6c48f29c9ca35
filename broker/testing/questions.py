"""What the brokers of a cluster are asked for its tests, until they all say the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.testing.members import ClusterError, ProcessState

if TYPE_CHECKING:
    from ottla.broker.testing.members import Members

TOPIC_TIMEOUT_MS = 10_000.0
ATTEMPTS_MAX = 500
ATTEMPT_PAUSE_S = 0.01
# A topic that a client makes by using it is heard of long before that; others are mistyped.
UNHEARD_ATTEMPTS = 100


async def wait_for_topic(members: Members, name: str, partitions: int) -> None:
    """Until every broker that runs knows a leader of each partition. Raises ClusterError."""
    seats = members.running
    answers = await asyncio.gather(
        *(seat.wait_for_topic(name, partitions, TOPIC_TIMEOUT_MS) for seat in seats.values())
    )
    for node_id, knows in zip(seats, answers, strict=True):
        if not knows:
            raise ClusterError(f"broker {node_id} has not heard of {name} and its leaders in time")


async def leader_of(members: Members, topic: str, partition: int) -> int:
    """Who leads it, once all who run agree on one that is not dead; -1 if there is no leader.

    Raises ClusterError, also for a partition that no broker knows."""
    leaders: set[int | None] = set()
    for attempt in range(ATTEMPTS_MAX):
        if not members.running:
            raise ClusterError("no broker is running: restart one first")
        answers = await asyncio.gather(*(one.leaders(topic) for one in members.running.values()))
        leaders = {answer.get(partition) for answer in answers}
        if len(leaders) == 1:
            (found,) = leaders
            if found is not None and (
                found < 0 or members.member(found).state is not ProcessState.DEAD
            ):
                return found
        if leaders == {None} and attempt >= UNHEARD_ATTEMPTS:
            raise ClusterError(f"no broker has heard of {topic}-{partition}")
        await asyncio.sleep(ATTEMPT_PAUSE_S)
    raise ClusterError(f"the brokers do not agree who leads {topic}-{partition}: {leaders}")
