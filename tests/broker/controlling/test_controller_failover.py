"""A controller that begins: in which order it looks, what it knows then, and what it notices."""

from __future__ import annotations

import logging

import pytest

from ottla.broker.administration.cluster_admin import TopicSpec
from ottla.broker.controlling.chores import FIRST_BALANCE_MS, RECONCILE_MS
from ottla.broker.controlling.controller import BrokerState
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.coordinator.controller.specs import ControllerSettings
from ottla.coordinator.store import full_disks, paths
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from tests.broker.support.cluster import Cluster, open_cluster
from tests.broker.support.node import quiet

T0 = TopicPartition("t", 0)


async def failed_over(settings: ControllerSettings | None = None) -> Cluster:
    """Three brokers and a topic; broker 1 was the controller and died, another has taken over."""
    cluster = await open_cluster(1, 2, 3, settings=settings)
    await cluster.create(TopicSpec("t", assignment={0: [1, 2, 3]}))
    for flaky in cluster.flaky.values():
        for session in flaky.sessions:
            session.read.clear()
            session.watched.clear()
    await cluster.kill(1)
    await cluster.expire(1)
    assert len(cluster.controllers()) == 1
    return cluster


def controller_session(cluster: Cluster) -> int:
    return cluster.controllers()[0]


@pytest.mark.requirement("CTL-04", "CTL-05", "CTL-06", "CTL-07", "CTL-08")
async def test_everything_is_watched_before_the_world_is_read() -> None:
    """C-13: what comes between reading and watching would never be noticed."""
    cluster = await failed_over()
    session = cluster.session(controller_session(cluster))
    watched = (
        paths.REASSIGN_PARTITIONS,
        paths.PREFERRED_ELECTION,
        paths.ISR_CHANGES,
        paths.TOPICS,
        paths.DELETE_TOPICS,
        paths.BROKER_IDS,
    )

    first_state = session.read.index(paths.state("t", 0))
    for path in watched:
        assert path in session.watched
        assert session.read.index(path) < first_state
    assert session.read.index(paths.ISR_CHANGES) < session.read.index(paths.topic("t"))
    assert paths.topic("t") in session.watched
    assert paths.state("t", 0) not in session.watched


@pytest.mark.requirement("CTL-07")
@pytest.mark.parametrize("is_enabled", [True, False])
async def test_deletions_are_watched_only_where_they_are_allowed(is_enabled: bool) -> None:
    """A controller that may not delete need not hear of wishes."""
    cluster = await failed_over(ControllerSettings(delete_topic_enable=is_enabled))
    session = cluster.session(controller_session(cluster))

    assert (paths.DELETE_TOPICS in session.watched) == is_enabled
    assert paths.TOPICS in session.watched


@pytest.mark.requirement("CTL-10")
async def test_states_change_only_after_the_new_controller_has_read_the_tree(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A decision on half an image would elect a replica that the other half rules out."""
    cluster = await open_cluster(1, 2, 3)
    await cluster.create(TopicSpec("t", assignment={0: [1, 2, 3]}))
    await cluster.kill(1)
    has_read: list[bool] = []

    def look(_record: logging.LogRecord) -> bool:
        sessions = [one for flaky in cluster.flaky.values() for one in flaky.sessions]
        has_read.append(any(paths.state("t", 0) in one.read for one in sessions))
        return True

    for flaky in cluster.flaky.values():
        for session in flaky.sessions:
            session.read.clear()
    logger = logging.getLogger("ottla.state_change")
    logger.addFilter(look)
    with caplog.at_level(logging.DEBUG, "ottla.state_change"):
        await cluster.expire(1)
        before = caplog.text
        other = ({2, 3} - {controller_session(cluster)}).pop()
        await cluster.kill(other)
        await cluster.expire(other)
    logger.removeFilter(look)

    assert "t-0: OnlinePartition -> OnlinePartition" in before
    assert f"t-0 on broker {other}: OnlineReplica -> OfflineReplica" in caplog.text
    assert has_read
    assert all(has_read)


@pytest.mark.requirement("CTL-09", "CTL-11")
async def test_a_new_controller_knows_what_the_store_says_and_reports_itself() -> None:
    """It decides on its image; whatever is missing there, it will not look after."""
    cluster = await failed_over()
    node_id = controller_session(cluster)
    node = cluster.nodes[node_id]
    current = node.candidate.controllership
    assert current is not None
    image = current.machine.image

    stored = await cluster.session(node_id).get(paths.state("t", 0))
    payload = paths.parse_state(stored.data)
    state = image.partition("t", 0)
    assert payload is not None
    assert state is not None
    assert (state.leader, state.leader_epoch, state.isr) == payload[:3]
    assert state.partition_epoch == stored.stat.version
    assert (state.leader, set(state.isr)) == (2, {2, 3})
    assert sorted(image.brokers) == [2, 3]
    assert node.candidate.broker_state is BrokerState.RUNNING_AS_CONTROLLER
    others = {2, 3} - {node_id}
    assert cluster.nodes[others.pop()].candidate.broker_state is BrokerState.RUNNING_AS_BROKER


@pytest.mark.requirement("CTL-08", "REP-08")
async def test_a_broker_that_goes_after_the_failover_leaves_the_isr() -> None:
    """Once a broker's session has ended, producers must not wait for it."""
    cluster = await failed_over()
    other = ({2, 3} - {controller_session(cluster)}).pop()
    await cluster.kill(other)
    await cluster.expire(other)

    node = cluster.nodes[controller_session(cluster)]
    state = node.metadata.image.partition("t", 0)
    assert state is not None
    assert state.isr == (node.node_id,)
    assert state.leader == node.node_id


@pytest.mark.requirement("CTL-06")
async def test_a_topic_that_is_made_after_the_failover_is_led() -> None:
    """By a tool, which writes the assignment only."""
    cluster = await failed_over()
    payload = paths.TopicPayload(None, {0: (3, 2)})
    await cluster.session(3).create(paths.topic("u"), paths.build_topic(payload))
    await quiet()

    assert cluster.nodes[2].metadata.leader_of("u", 0) == (3, 0)


@pytest.mark.requirement("CTL-04", "CTL-44", "ZKT-15", "ZKT-17")
async def test_a_move_that_is_asked_for_after_the_failover_is_done() -> None:
    """From the znode to the znode's end, with the leader's ISR changes between."""
    cluster = await failed_over()
    session = cluster.session(3)
    data = paths.build_moves({T0: (3,)})
    await session.create(paths.REASSIGN_PARTITIONS, data)
    await quiet()

    payload = paths.parse_topic((await session.get(paths.topic("t"))).data)
    assert payload is not None
    assert payload.partitions == {0: (3,)}
    assert cluster.nodes[2].metadata.leader_of("t", 0)[0] == 3
    assert await session.exists(paths.REASSIGN_PARTITIONS) is None
    assert cluster.nodes[2].replicas.deleted == [("t", 0)]


@pytest.mark.requirement("CTL-05", "CTL-32", "ZKT-14", "ZKT-17")
async def test_an_election_that_is_asked_for_after_the_failover_is_held() -> None:
    """The znode names what is to be elected, and goes."""
    cluster = await failed_over()
    await cluster.start(1, 1)
    await cluster.leader_writes(T0, (2, 3, 1))
    assert cluster.nodes[3].metadata.leader_of("t", 0)[0] == 2
    session = cluster.session(3)
    await session.create(paths.PREFERRED_ELECTION, paths.build_partition_list([T0]))
    await quiet()

    assert cluster.nodes[3].metadata.leader_of("t", 0)[0] == 1
    assert await session.exists(paths.PREFERRED_ELECTION) is None


@pytest.mark.parametrize("has_new_controller", [False, True])
async def test_leaderships_come_back_soon_after_a_disk_had_no_room(
    has_new_controller: bool,
) -> None:
    """Long before the next regular balance, and also if the controller changed meanwhile."""
    cluster = await open_cluster(1, 2, 3)
    assignment = {index: [3, 1, 2] for index in range(20)}
    await cluster.create(TopicSpec("t", assignment=assignment))
    # The next regular balance is minutes away.
    await cluster.clock.advance(FIRST_BALANCE_MS + 1)
    session = cluster.session(3)
    report = full_disks.RoomReport(full_disks.Room.ENOUGH, {T0: full_disks.Room.LOW})
    await session.create(full_disks.path_of(3), full_disks.build(report), ephemeral=True)
    await quiet()
    moved = cluster.nodes[2].metadata.leader_of("t", 0)[0]
    await session.set(full_disks.path_of(3), full_disks.build(full_disks.RoomReport()))
    await quiet()
    if has_new_controller:
        await cluster.kill(1)
        await cluster.expire(1)
    await cluster.clock.advance(ControllerSettings().balance_after_in_sync_ms + 10_000)

    assert moved in (1, 2)
    assert cluster.nodes[2].metadata.leader_of("t", 0)[0] == 3


@pytest.mark.requirement("CTL-13", "CTL-33")
@pytest.mark.parametrize("is_enabled", [True, False])
async def test_leaders_are_balanced_if_that_is_wanted(is_enabled: bool) -> None:
    """With auto.leader.rebalance.enable the operator has nothing to do after a restart."""
    assert ControllerSettings().auto_leader_rebalance_enable
    assert parse_broker_config({}).config.auto_leader_rebalance_enable
    settings = ControllerSettings(auto_leader_rebalance_enable=is_enabled)
    cluster = await failed_over(settings)
    await cluster.start(1, 1)
    await cluster.leader_writes(T0, (2, 3, 1))
    await cluster.clock.advance(FIRST_BALANCE_MS)
    assert cluster.nodes[3].metadata.leader_of("t", 0)[0] == 2
    await cluster.clock.advance(settings.leader_imbalance_check_interval_ms)

    assert cluster.nodes[3].metadata.leader_of("t", 0)[0] == (1 if is_enabled else 2)


async def test_what_no_watch_told_is_found_half_a_minute_later() -> None:
    """C-07: a safety net, for states that were written and never announced."""
    cluster = await failed_over()
    await cluster.write_isr(T0, (2,))
    await quiet()
    current = cluster.nodes[controller_session(cluster)].candidate.controllership
    assert current is not None
    before = current.machine.image.partition("t", 0)
    assert before is not None
    assert before.isr == (2, 3)
    await cluster.clock.advance(RECONCILE_MS)

    after = current.machine.image.partition("t", 0)
    assert after is not None
    assert after.isr == (2,)


async def test_a_new_topic_costs_each_broker_one_request() -> None:
    """NET-36: fifty partitions, one request with all roles; nothing is said twice."""
    cluster = await open_cluster(1, 2, 3)
    for node in cluster.nodes.values():
        node.replicas.requests.clear()
    await cluster.create(TopicSpec("u", 50, 3))

    for node in cluster.nodes.values():
        (request,) = node.replicas.requests
        assert isinstance(request, LeaderAndIsrRequest)
        assert len(request.topic_states[0].partition_states) == 50
