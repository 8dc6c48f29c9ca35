"""Writes that the store refuses because a leader was faster, and what that costs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from ottla.broker.administration.cluster_admin import TopicSpec
from ottla.broker.administration.partition_admin import MoveSpec
from ottla.broker.controlling.lost_replicas import REFUSED_ROLE_RETRY_MS
from ottla.coordinator.controller.events import (
    BrokerSuspected,
    ControllerDecision,
    Event,
    ReplicasBack,
    ReplicasFailed,
)
from ottla.coordinator.controller.specs import ControllerSettings
from ottla.coordinator.store import paths
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from tests.broker.support.cluster import Cluster, open_cluster
from tests.broker.support.node import TIMEOUT_MS, quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.coordinator.metadata.image import PartitionState
    from ottla.coordinator.store.store import Operation, OperationResult

T0 = TopicPartition("t", 0)


async def three(count: int, settings: ControllerSettings | None = None) -> Cluster:
    """Broker 1 is the controller; broker 3 leads all partitions of the topic."""
    cluster = await open_cluster(1, 2, 3, settings=settings)
    await cluster.create(
        TopicSpec("t", assignment={index: [3, 1, 2] for index in range(count)}),
        TopicSpec("u", 5, 3),
    )
    assert cluster.controllers() == [1]
    return cluster


@pytest.mark.requirement("CTL-17", "CTL-21", "ZKT-26")
async def test_a_failover_honours_an_isr_that_was_not_announced_yet() -> None:
    """The leader took broker 1 out, acknowledged without it, and died with the announcement.

    Elected by what the controller remembered, broker 1 would lose those records."""
    cluster = await three(1)
    await cluster.write_isr(T0, (3, 2))
    await cluster.kill(3)
    await cluster.expire(3)

    state = cluster.nodes[1].metadata.image.partition("t", 0)
    assert state is not None
    assert (state.leader, state.isr, state.leader_epoch) == (2, (2,), 1)


@pytest.mark.requirement("CTL-22")
async def test_a_refused_failover_reads_only_what_it_was_about() -> None:
    """Reading the whole tree again takes time for each partition, and all of them lack a leader
    meanwhile."""
    cluster = await three(1500)
    for index in (3, 1400):
        await cluster.write_isr(TopicPartition("t", index), (3, 2))
    for node in cluster.nodes.values():
        node.replicas.requests.clear()
    session = cluster.session(1)
    session.read.clear()
    await cluster.kill(3)
    await cluster.expire(3)

    image = cluster.nodes[1].metadata.image
    states = image.topics["t"].partitions
    assert [states[index].leader for index in (0, 3, 999, 1400, 1499)] == [1, 2, 1, 2, 1]
    assert all(3 not in state.isr for state in states.values())
    assert paths.topic("t") not in session.read
    told = [
        (topic.topic_name, state.partition_index)
        for request in cluster.nodes[2].replicas.requests
        if isinstance(request, LeaderAndIsrRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    assert len(told) == len(set(told)) >= 1500
    assert len(cluster.nodes[2].replicas.requests) <= 3


@pytest.mark.requirement("NET-36")
async def test_a_failover_of_fifty_partitions_is_one_request_for_each_broker() -> None:
    """Several commands in one: a request for each would be fifty disk and network turns."""
    cluster = await three(50)
    for node in cluster.nodes.values():
        node.replicas.requests.clear()
    await cluster.kill(3)
    await cluster.expire(3)

    for node_id in (1, 2):
        (request,) = cluster.nodes[node_id].replicas.requests
        assert isinstance(request, LeaderAndIsrRequest)
        counts = {one.topic_name: len(one.partition_states) for one in request.topic_states}
        assert counts["t"] == 50


async def test_refused_roles_are_repeated_to_the_brokers_that_refused_them() -> None:
    """C-12: told to all, with every broker refusing, each repetition would triple the refusals."""
    cluster = await open_cluster(1, 2, 3)
    for node in cluster.nodes.values():
        node.replicas.errors = {("t", index): ErrorCode.UNKNOWN_SERVER_ERROR for index in range(50)}
    await cluster.create(TopicSpec("t", 50, 3))
    await quiet()
    for node in cluster.nodes.values():
        node.replicas.requests.clear()
    for _ in range(3):
        await cluster.clock.advance(REFUSED_ROLE_RETRY_MS)
    assert [len(node.replicas.requests) for node in cluster.nodes.values()] == [3, 3, 3]
    cluster.nodes[2].replicas.errors.clear()
    for _ in range(2):
        await cluster.clock.advance(REFUSED_ROLE_RETRY_MS)

    assert [len(node.replicas.requests) for node in cluster.nodes.values()] == [5, 4, 5]


@pytest.mark.requirement("REP-22", "REP-24")
async def test_without_unclean_elections_a_partition_waits_for_a_member_of_its_isr() -> None:
    """The first broker to return may lack the records that were committed last."""
    cluster = await three(1)
    await cluster.leader_writes(T0, (3,))
    await cluster.kill(3)
    await cluster.expire(3)
    assert cluster.nodes[1].metadata.leader_of("t", 0)[0] == -1
    await cluster.start(3, 1)

    assert cluster.nodes[1].metadata.leader_of("t", 0) == (3, 2)


@pytest.mark.requirement("REP-23", "REP-24", "CTL-19")
async def test_with_unclean_elections_any_replica_leads_at_once_and_the_loss_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Availability was wanted; that records may be gone must not be found out by chance."""
    settings = ControllerSettings(unclean_leader_election_enable=True)
    cluster = await three(1, settings)
    await cluster.leader_writes(T0, (3,))
    await cluster.kill(3)
    with caplog.at_level(logging.WARNING, "ottla.state_change"):
        await cluster.expire(3)

    assert cluster.nodes[1].metadata.leader_of("t", 0)[0] == 1
    assert "t-0: broker 1 leads with epoch 1 though it was not in sync" in caplog.text


@pytest.mark.requirement("REP-24", "CTL-19")
@pytest.mark.parametrize("is_set_before", [True, False])
async def test_unclean_elections_that_were_allowed_while_it_ran_count(is_set_before: bool) -> None:
    """Set for all brokers: seen by the controller in office, and by the next one."""
    cluster = await three(1)
    admin = cluster.nodes[1].admin
    allowed = {"unclean.leader.election.enable": "true"}
    await cluster.leader_writes(T0, (3,))
    if is_set_before:
        await admin.set_configs("brokers", "<default>", allowed)
        await cluster.kill(1)
        await cluster.expire(1)
    await cluster.kill(3)
    await cluster.expire(3)
    other = cluster.nodes[2]
    if not is_set_before:
        assert other.metadata.leader_of("t", 0)[0] == -1
        await admin.set_configs("brokers", "<default>", allowed)
        await quiet()

    assert other.metadata.leader_of("t", 0)[0] in (1, 2)


@pytest.mark.requirement("CTL-31")
async def test_state_changes_can_be_followed_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """How an operator learns who led what when."""
    with caplog.at_level(logging.DEBUG, "ottla.state_change"):
        cluster = await three(1)
        await cluster.kill(3)
        await cluster.expire(3)

    for line in (
        "t-0: NonExistentPartition -> NewPartition",
        "t-0: NewPartition -> OnlinePartition",
        "t-0 on broker 3: NewReplica -> OnlineReplica",
        "t-0: OnlinePartition -> OnlinePartition",
        "t-0 on broker 3: OnlineReplica -> OfflineReplica",
    ):
        assert line in caplog.text


async def test_an_event_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """An operator on call needs to see who joined, who left and who leads instead."""
    with caplog.at_level(logging.INFO, "ottla.state_change"):
        cluster = await three(4)
        await cluster.kill(3)
        await cluster.expire(3)

    said = [one.getMessage() for one in caplog.records if one.name == "ottla.state_change"]
    assert "topic t was created with 4 partitions" in said
    assert "broker 3 has left the cluster" in said
    (elections,) = [line for line in said if "have a new leader" in line]
    assert elections == "6 partitions have a new leader: broker 1 leads 6"
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_what_a_broker_said_is_not_forgotten_with_a_refused_write() -> None:
    """It is said once: a replica that failed, one that is back, a broker that answers again."""
    cluster = await three(1)
    current = cluster.nodes[1].candidate.controllership
    assert current is not None

    async def meet(event: Event, isr: tuple[int, ...]) -> PartitionState:
        await cluster.write_isr(T0, isr)
        await current._perform(event)
        state = current.machine.image.partition(*T0)
        assert state is not None
        return state

    state = await meet(ReplicasFailed(3, (T0,)), (3, 2))
    assert (state.leader, state.isr) == (2, (2,))
    await current._perform(ReplicasFailed(2, (T0,)))
    assert current.machine.offline_partition_count == 1
    state = await meet(ReplicasBack(2, (T0,)), (2,))
    assert (state.leader, state.isr) == (2, (2,))
    await cluster.leader_writes(T0, (2, 1))
    generation = cluster.nodes[2].lifecycle.broker_epoch
    state = await meet(BrokerSuspected(2, generation), (2, 1))
    assert (state.leader, state.isr) == (1, (1,))


async def test_a_move_that_is_refused_in_part_is_told_in_full() -> None:
    """R-30: a leader that does not learn that the old replicas are gone lets them back into the
    ISR."""
    count = 1200
    cluster = await three(count)
    admin = cluster.nodes[1].admin.partitions
    items = [TopicPartition("t", index) for index in range(count)]
    # The second group of the step that takes the old replicas out is refused.
    current = cluster.nodes[1].candidate.controllership
    assert current is not None
    moves = [MoveSpec(item, (3, 1)) for item in items]
    shrink = current._carry_out
    is_done = False

    async def meddle(decision: ControllerDecision, untold: list[TopicPartition]) -> object:
        nonlocal is_done
        if "old replicas go" in decision.reason and not is_done:
            is_done = True
            await cluster.write_isr(items[-1], (3, 1))
        return await shrink(decision, untold)

    current._carry_out = meddle  # type: ignore[method-assign, assignment]
    results = await admin.alter_moves(moves, allow_factor_change=True, timeout_ms=TIMEOUT_MS)
    await quiet()

    assert {one.error_code for one in results} == {ErrorCode.NONE}
    assert is_done
    image = current.machine.image
    last: dict[int, list[int]] = {}
    for request in cluster.nodes[3].replicas.requests:
        if isinstance(request, LeaderAndIsrRequest):
            for topic in request.topic_states:
                if topic.topic_name == "t":
                    last |= {one.partition_index: one.replicas for one in topic.partition_states}
    assert {tuple(state.replicas) for state in image.topics["t"].partitions.values()} == {(3, 1)}
    assert {tuple(replicas) for replicas in last.values()} == {(3, 1)}


async def test_a_wish_for_moves_that_was_withdrawn_costs_one_reading_of_the_world() -> None:
    """An administrator removes the znode in the moment in which the last of its moves is over."""
    cluster = await three(1)
    session = cluster.session(1)
    hurried: list[str] = []
    multi = session.multi

    async def withdrawn_before(operations: Sequence[Operation]) -> list[OperationResult]:
        if not hurried and any(one.path == paths.REASSIGN_PARTITIONS for one in operations):
            hurried.append(paths.REASSIGN_PARTITIONS)
            await cluster.session(2).delete(paths.REASSIGN_PARTITIONS)
        return await multi(operations)

    session.multi = withdrawn_before  # type: ignore[method-assign]
    moves = paths.build_moves({T0: (3,)})
    await cluster.session(3).create(paths.REASSIGN_PARTITIONS, moves)
    session.read.clear()
    await quiet()

    assert hurried
    assert session.read.count(paths.topic("u")) == 1
    assert cluster.nodes[2].metadata.image.controller_epoch == 1
    assert cluster.nodes[2].metadata.leader_of("t", 0)[0] == 3
