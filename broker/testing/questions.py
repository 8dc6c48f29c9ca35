"""Asks the brokers of a cluster on behalf of tests, until all give the same answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.server.broker import READY_TIMEOUT_MS, CannotStart
from ottla.broker.testing.cluster_node import AccessState
from ottla.broker.testing.members import ClusterError, ProcessState
from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store.entities import USERS, quoted
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from ottla.broker.server.broker import Broker
    from ottla.broker.testing.members import Members

TOPIC_TIMEOUT_MS = 10_000.0
ATTEMPTS_MAX = 500
ATTEMPT_PAUSE_S = 0.01
# A topic created by its first use is known long before that; others are mistyped.
UNHEARD_ATTEMPTS = 100


async def wait_for_topic(members: Members, name: str, partitions: int) -> None:
    """Wait until every running broker knows a leader of each partition. Raises ClusterError."""
    nodes = members.running
    answers = await asyncio.gather(
        *(node.wait_for_topic(name, partitions, TOPIC_TIMEOUT_MS) for node in nodes.values())
    )
    for node_id, knows in zip(nodes, answers, strict=True):
        if not knows:
            raise ClusterError(f"broker {node_id} did not learn of {name} and its leaders in time")


async def leader_of(members: Members, topic: str, partition: int) -> int:
    """Return the leader once all running brokers agree on a live one; -1 without a leader.

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
            raise ClusterError(f"no broker knows {topic}-{partition}")
        await asyncio.sleep(ATTEMPT_PAUSE_S)
    raise ClusterError(f"the brokers do not agree who leads {topic}-{partition}: {leaders}")


class Answers:
    """The questions of ``ClusterNode``, to a broker in this process."""

    @property
    def broker(self) -> Broker:
        """The broker, once it is started."""
        raise NotImplementedError

    async def wait_for_brokers(self, node_ids: frozenset[int]) -> None:
        metadata = self.broker.metadata
        if not await metadata.wait_for(
            lambda image: node_ids <= image.brokers.keys(), READY_TIMEOUT_MS
        ):
            raise CannotStart("the brokers have not found each other within a minute")

    async def leaders(self, topic: str) -> dict[int, int]:
        view = self.broker.metadata.image.topics.get(topic)
        if view is None:
            return {}
        return {index: state.leader for index, state in view.partitions.items()}

    async def reload_certificates(self) -> None:
        self.broker.parts.tls.refresh()

    async def access_state(self, user: str | None) -> AccessState:
        configs = self.broker.metadata.image.configs
        texts = {} if user is None else configs.get(Entity(USERS, quoted(user)), {})
        credentials = tuple(texts[name] for name in SCRAM_MECHANISMS if name in texts)
        acls = self.broker.parts.authorization.acls
        return AccessState(credentials, frozenset(acls.index.rules() if acls is not None else ()))

    async def wait_for_topic(self, topic: str, partitions: int, timeout_ms: float) -> bool:
        metadata = self.broker.metadata
        return await metadata.wait_for(
            lambda _image: all(
                metadata.leader_of(topic, index)[0] >= 0 for index in range(partitions)
            ),
            timeout_ms,
        )
