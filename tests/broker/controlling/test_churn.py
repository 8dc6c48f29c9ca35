"""Seeded chaos: brokers that die and return, sessions that end, answers that get lost.

When it stops, the cluster must be whole, and on the way no two brokers may ever have been given
the same leadership epoch.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ottla.broker.administration.cluster_admin import PartitionsSpec, TopicSpec
from ottla.coordinator.controller.writes import payload_of
from ottla.coordinator.metadata.image import NO_LEADER
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Replace, SessionState, StoreError
from ottla.protocol.ids import TopicPartition, Uuid
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from tests.broker.support.cluster import Cluster, open_cluster
from tests.broker.support.node import BrokerNode, quiet

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ottla.broker.administration.cluster_admin import ClusterAdmin

NODES = (1, 2, 3)
Leadership = tuple["Uuid", int, int]


class Churn:
    """One seeded run."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.dice = random.Random(seed)
        self.waiting: list[asyncio.Future[object]] = []
        self.epochs: dict[int, int] = {}
        # What brokers were told, by the brokers that are no more as well.
        self.retired: list[BrokerNode] = []

    @property
    def alive(self) -> list[BrokerNode]:
        nodes = self.cluster.nodes
        return [nodes[node_id] for node_id in NODES if node_id not in self.cluster.dead]

    async def step(self) -> None:
        """Runs one random event."""
        happenings = [
            self.create,
            self.create,
            self.delete,
            self.enlarge,
            self.change_isr,
            self.change_isr,
            self.die,
            self.come_back,
            self.come_back,
            self.lose_session,
            self.lose_connection,
            self.lose_messages,
            self.pass_time,
        ]
        await self.dice.choice(happenings)()
        for _ in range(self.dice.randrange(60)):
            await asyncio.sleep(0)

    def admin(self) -> ClusterAdmin:
        """Usually the controller's, as clients do it."""
        controllers = self.cluster.controllers()
        if controllers and self.dice.random() < 0.9:
            return self.cluster.nodes[self.dice.choice(controllers)].admin
        return self.dice.choice(self.alive).admin

    def ask(self, coroutine: Coroutine[object, object, object]) -> None:
        self.waiting.append(asyncio.ensure_future(coroutine))

    async def create(self) -> None:
        if self.alive:
            name = f"t{self.dice.randrange(6)}"
            factor = self.dice.randint(1, len(self.alive))
            spec = TopicSpec(
                name, self.dice.randint(1, 4), factor, configs={"min.insync.replicas": "2"}
            )
            self.ask(self.admin().create_topics([spec], validate_only=False, timeout_ms=500))

    async def delete(self) -> None:
        if self.alive:
            name = f"t{self.dice.randrange(6)}"
            self.ask(self.admin().delete_topics([name], timeout_ms=500))

    async def enlarge(self) -> None:
        if self.alive:
            spec = PartitionsSpec(f"t{self.dice.randrange(6)}", self.dice.randint(2, 6))
            self.ask(self.admin().create_partitions([spec], validate_only=False, timeout_ms=500))

    async def change_isr(self) -> None:
        """What a leader does when a follower falls behind or catches up."""
        for node in self.alive:
            session = self.cluster.session(node.node_id)
            led = [
                (name, index)
                for (name, index), leader in sorted(node.replicas.leaders.items())
                if leader == node.node_id
            ]
            if led and session.state is SessionState.CONNECTED:
                await self._write_isr(node, *self.dice.choice(led))

    async def _write_isr(self, node: BrokerNode, name: str, index: int) -> None:
        known = node.metadata.partition(name, index)
        if known is None or known.leader != node.node_id:
            return
        others = [one for one in known.replicas if one != node.node_id]
        joined = self.dice.sample(others, self.dice.randint(0, len(others)))
        joined = [one for one in joined if one not in self.cluster.dead]
        isr = (node.node_id, *joined)
        eligible = tuple(set(known.isr) - set(isr)) if len(isr) < 2 else ()
        state = replace(known, isr=isr, eligible_leaders=eligible)
        data = paths.build_state(payload_of(state))
        session = self.cluster.session(node.node_id)
        try:
            await session.multi([Replace(paths.state(name, index), data, known.partition_epoch)])
            changed = paths.build_partition_list([TopicPartition(name, index)])
            await session.create(paths.ISR_CHANGE_PREFIX, changed, sequential=True)
        except StoreError:
            return

    async def die(self) -> None:
        if len(self.alive) > 1:
            node = self.dice.choice(self.alive)
            if self.dice.random() < 0.5:
                self.epochs[node.node_id] = node.lifecycle.broker_epoch
                self.cluster.dead.add(node.node_id)
                await node.stop()
            else:
                await self.cluster.kill(node.node_id)
            self.retired.append(node)

    async def come_back(self) -> None:
        for node_id in sorted(self.cluster.dead):
            await self.cluster.expire(node_id)
            await self.cluster.start(node_id, self.epochs.pop(node_id, -1))
            return

    async def lose_session(self) -> None:
        if self.alive:
            await self.cluster.expire(self.dice.choice(self.alive).node_id)

    async def lose_connection(self) -> None:
        for node in self.alive:
            session = self.cluster.session(node.node_id)
            if session.state is SessionState.SUSPENDED:
                session.resume()
            elif session.state is SessionState.CONNECTED and self.dice.random() < 0.4:
                session.suspend()

    async def lose_messages(self) -> None:
        if self.alive:
            session = self.cluster.session(self.dice.choice(self.alive).node_id)
            session.answers_to_lose += self.dice.randrange(2)
            session.requests_to_lose += self.dice.randrange(2)

    async def pass_time(self) -> None:
        await self.cluster.clock.advance(self.dice.choice([50, 300, 5000, 20000]))

    async def heal(self) -> None:
        """Everything works again; let it finish."""
        for node in self.alive:
            session = self.cluster.session(node.node_id)
            session.answers_to_lose = session.requests_to_lose = 0
            if session.state is SessionState.SUSPENDED:
                session.resume()
        while self.cluster.dead:
            await self.come_back()
        for _ in range(30):
            await self.cluster.clock.advance(1000)
            await quiet()
        await asyncio.gather(*self.waiting)


def check_epochs(churn: Churn) -> None:
    """Asserts that a partition has one leader per epoch, over all controllers and all brokers."""
    leaders: dict[Leadership, int] = {}
    for node in [*churn.retired, *churn.cluster.nodes.values()]:
        told: dict[tuple[Uuid, int], int] = {}
        for request in node.replicas.requests:
            if not isinstance(request, LeaderAndIsrRequest):
                continue
            for topic in request.topic_states:
                for state in topic.partition_states:
                    place = (topic.topic_id, state.partition_index)
                    assert told.get(place, -1) <= state.leader_epoch, "an epoch went back"
                    told[place] = state.leader_epoch
                    known = leaders.setdefault((*place, state.leader_epoch), state.leader)
                    assert known == state.leader, "two leaders of one epoch"


async def check_whole(churn: Churn) -> None:
    """All brokers agree with each other and with the store, and everything is led."""
    cluster = churn.cluster
    (controller,) = cluster.controllers()
    held = cluster.nodes[controller].candidate.controllership
    assert held is not None
    image = held.machine.image
    assert sorted(image.brokers) == list(NODES)
    tree = cluster.store.read_tree()
    assert sorted(image.topics) == tree.children(paths.TOPICS)
    assert tree.children(paths.DELETE_TOPICS) == []
    assert set(tree.children("/config/topics")) == set(image.topics)
    for name, topic in image.topics.items():
        for index, state in topic.partitions.items():
            assert tree.get(paths.state(name, index)).data == paths.build_state(payload_of(state))
            assert state.leader != NO_LEADER, f"{name}-{index} is not led: {state}"
            assert state.leader in state.isr
            assert set(state.isr) <= set(state.replicas)
    for node in cluster.nodes.values():
        known = node.metadata.image
        assert sorted(known.brokers) == list(NODES)
        assert known.controller_id == controller
        assert sorted(known.topics) == sorted(image.topics)
        for name, topic in image.topics.items():
            assert known.topics[name].topic_id == topic.topic_id
            for index, state in topic.partitions.items():
                seen = known.topics[name].partitions[index]
                assert (seen.leader, seen.leader_epoch, seen.isr, seen.partition_epoch) == (
                    state.leader,
                    state.leader_epoch,
                    state.isr,
                    state.partition_epoch,
                )
                if node.node_id in state.replicas:
                    assert node.replicas.epochs[(name, index)] == state.leader_epoch
        assert known.configs.keys() == image.configs.keys()


@pytest.mark.requirement("CTL-47")
@pytest.mark.parametrize("seed", range(12))
async def test_after_any_churn_the_cluster_is_whole(seed: int) -> None:
    """Checks every invariant of this folder at once, in random orders; the seed replays a
    failure."""
    churn = Churn(await open_cluster(*NODES), seed)
    for _ in range(80):
        await churn.step()
    await churn.heal()

    await check_whole(churn)
    check_epochs(churn)
    for node in churn.cluster.nodes.values():
        await node.kill()
