"""Sessions, registrations and elections: brokers that die, come back, and lose answers."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.administration.cluster_admin import TopicSpec
from ottla.coordinator.store import paths
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.broker.support.cluster import open_cluster
from tests.broker.support.node import TIMEOUT_MS, BrokerNode, HandClock, quiet


async def create(node: BrokerNode, *specs: TopicSpec) -> list[ErrorCode]:
    results = await node.admin.create_topics(specs, validate_only=False, timeout_ms=TIMEOUT_MS)
    return [result.error_code for result in results]


@pytest.mark.requirement("CTL-01", "CTL-12")
async def test_exactly_one_broker_is_the_controller_and_all_know_it() -> None:
    """Admin requests go to the one; the others wait for its end."""
    cluster = await open_cluster(1, 2, 3)

    assert cluster.controllers() == [1]
    for node in cluster.nodes.values():
        assert node.metadata.controller_id == 1
        assert sorted(node.metadata.image.brokers) == [1, 2, 3]
        assert [end.port for end in node.metadata.endpoints("PLAINTEXT")] == [9093, 9094, 9095]
        assert node.metadata.endpoints("OTHER") == ()


@pytest.mark.requirement("CTL-02", "CTL-03", "CTL-15")
async def test_the_death_of_the_controller_makes_another_one() -> None:
    """With the next epoch, and the dead broker's leaderships moved."""
    cluster = await open_cluster(1, 2, 3)
    assert await create(cluster.nodes[1], TopicSpec("t", 3, 3)) == [ErrorCode.NONE]
    await cluster.kill(1)
    await cluster.expire(1)
    (survivor,) = cluster.controllers()
    node = cluster.nodes[survivor]

    assert node.metadata.image.controller_epoch == 2
    assert sorted(node.metadata.image.brokers) == [2, 3]
    leaders = [node.metadata.leader_of("t", index) for index in range(3)]
    assert {leader for leader, _ in leaders} <= {2, 3}
    assert max(epoch for _, epoch in leaders) == 1
    assert cluster.nodes[5 - survivor].metadata.image.topics == node.metadata.image.topics


@pytest.mark.requirement("CTL-48")
async def test_a_controller_that_was_deposed_writes_and_says_nothing_more() -> None:
    """C-02: it wakes up believing in itself; the store and the brokers do not."""
    cluster = await open_cluster(1, 2)
    old = cluster.nodes[1].candidate.controllership
    assert old is not None
    other = await cluster.store.connect()
    epoch = await other.get(paths.CONTROLLER_EPOCH)
    await other.set(paths.CONTROLLER_EPOCH, b"7", epoch.stat.version)
    results = await cluster.nodes[1].admin.create_topics(
        [TopicSpec("t")], validate_only=False, timeout_ms=TIMEOUT_MS
    )
    await quiet()

    assert [result.error_code for result in results] == [ErrorCode.REQUEST_TIMED_OUT]
    assert await other.children(paths.TOPICS) == []
    await cluster.clock.advance(1000)
    fresh = cluster.nodes[1].candidate.controllership
    assert fresh is not None
    assert fresh.identity.epoch == 8
    assert old.identity.epoch == 1


async def test_removing_the_controllers_znode_forces_an_election() -> None:
    """Operators do that; the old controller must notice and step back."""
    cluster = await open_cluster(1, 2)
    other = await cluster.store.connect()
    await other.delete(paths.CONTROLLER)
    await quiet()
    await cluster.clock.advance(1000)

    assert len(cluster.controllers()) == 1
    found = paths.parse_number((await other.get(paths.CONTROLLER_EPOCH)).data)
    assert found == 2


async def test_waiters_are_answered_when_the_controller_resigns() -> None:
    """C-20: a request queued behind the end of its controller must not wait for its timeout."""
    cluster = await open_cluster(1)
    current = cluster.nodes[1].candidate.controllership
    assert current is not None

    async def never() -> None:
        raise AssertionError

    reply = current.ask(never)  # type: ignore[arg-type]
    cluster.session(1).suspend()
    await cluster.nodes[1].candidate.end()
    error = reply.exception()

    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.NOT_CONTROLLER
    assert current.ask(never).exception() is not None  # type: ignore[arg-type]


async def test_waiters_are_answered_in_the_order_in_which_they_asked() -> None:
    """P-12: in any other order, two runs of one simulated seed would be two stories."""
    cluster = await open_cluster(1)
    current = cluster.nodes[1].candidate.controllership
    assert current is not None

    async def never() -> None:
        raise AssertionError

    told: list[int] = []
    for number in range(40):
        reply = current.ask(never)  # type: ignore[arg-type]
        reply.add_done_callback(lambda done, number=number: told.append(number))  # type: ignore[misc]
    cluster.session(1).suspend()
    await cluster.nodes[1].candidate.end()
    await quiet()

    assert told == list(range(40))


async def test_a_suspended_controller_steps_back_and_returns_with_another_epoch() -> None:
    """C-06: while the session is in doubt it must not act; the same session may lead again
    later."""
    cluster = await open_cluster(1)
    await create(cluster.nodes[1], TopicSpec("t"))
    cluster.session(1).suspend()
    await quiet()
    assert cluster.controllers() == []
    assert await create(cluster.nodes[1], TopicSpec("u")) == [ErrorCode.NOT_CONTROLLER]
    cluster.session(1).resume()
    await quiet()

    assert cluster.controllers() == [1]
    assert cluster.nodes[1].metadata.image.controller_epoch == 2
    assert cluster.nodes[1].metadata.leader_of("t", 0) == (1, 0)
    assert await create(cluster.nodes[1], TopicSpec("u")) == [ErrorCode.NONE]


@pytest.mark.requirement("ZKT-04")
async def test_an_expired_broker_registers_again_without_having_lost_anything() -> None:
    """A new generation of the same process: out of the lists and back, but its data is whole."""
    cluster = await open_cluster(1, 2)
    await create(cluster.nodes[1], TopicSpec("t", assignment={0: [2]}))
    before = cluster.nodes[2].lifecycle.broker_epoch
    await cluster.expire(2)
    registered = cluster.nodes[1].candidate.controllership
    assert registered is not None
    broker = registered.machine.image.brokers[2]

    assert cluster.nodes[2].lifecycle.broker_epoch == before + 1
    assert cluster.nodes[2].receiver.broker_epoch == before + 1
    assert broker.generation == before + 1
    assert broker.has_kept_its_data(since_generation=before)
    assert cluster.nodes[1].metadata.leader_of("t", 0)[0] == 2
    assert cluster.nodes[1].metadata.leader_of("t", 0)[1] >= 1


@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_process_that_has_lost_sessions_says_since_when_it_has_its_data(
    is_clean: bool,
) -> None:
    """R-23: the controller may not have heard of its first session, before which it had lost what
    a loss of power took; counted from its last session only, that would be forgotten."""
    cluster = await open_cluster(1, 2)
    before = cluster.nodes[2].lifecycle.broker_epoch
    await cluster.kill(2)
    await cluster.expire(2)
    node = await cluster.start(2, clean_stop_epoch=before if is_clean else -1)
    await cluster.expire(2)
    await cluster.expire(2)
    payload = paths.parse_broker(cluster.store.read_tree().get(paths.broker(2)).data)

    assert payload is not None
    assert node.lifecycle.broker_epoch == before + 3
    assert payload.clean_stop_epoch == (before if is_clean else before + 1)


@pytest.mark.requirement("ZKT-05")
async def test_a_second_broker_of_the_same_id_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """It must not disturb the first one, and must say why it does not start: at once that it waits,
    in the end where the other one is and what is to be done."""
    cluster = await open_cluster(1)
    intruder = BrokerNode(cluster.store, 1, clock=HandClock(), random_start=99)
    intruder.clock.now = 7_000
    starting = asyncio.ensure_future(intruder.start())
    await quiet()
    assert not starting.done()
    (warning,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert warning == (
        "broker id 1 was registered by localhost:9093, 7 s ago; "
        "waiting up to 27 s for that session to end"
    )
    await intruder.clock.advance(30_000)

    with pytest.raises(KafkaError) as refused:
        await starting
    assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert "localhost:9093, 37 s ago" in refused.value.message
    assert "an unused id" in refused.value.message
    assert cluster.controllers() == [1]
    assert cluster.nodes[1].lifecycle.broker_epoch == 1


async def test_a_restart_within_the_session_timeout_waits_for_its_earlier_life() -> None:
    """C-08: the old registration must not be taken for one's own."""
    cluster = await open_cluster(1, 2)
    await cluster.kill(2)
    old = cluster.session(2)
    starting = asyncio.ensure_future(cluster.start(2))
    await quiet()
    assert not starting.done()
    await cluster.store.expire(old.session_id)
    node = await starting

    assert node.lifecycle.broker_epoch == 2
    assert sorted(cluster.nodes[1].metadata.image.brokers) == [1, 2]


async def test_a_broker_that_has_the_lock_of_its_last_process_need_not_wait_for_its_session() -> (
    None
):
    """A broker that is killed and started again is back at once, not after its session."""
    cluster = await open_cluster(1)
    await cluster.start(2, home="disk-2")
    await cluster.kill(2)
    node = await cluster.start(2, home="disk-2")
    await cluster.clock.advance(1000)

    assert node.lifecycle.broker_epoch == 2
    assert node.metadata.controller_id == 1
    other = asyncio.ensure_future(cluster.start(2, home="disk-of-another"))
    await quiet()
    assert not other.done()
    other.cancel()


async def test_a_controllers_next_life_does_not_wait_for_the_place_of_its_last() -> None:
    """No other process can register its id, so the znode belongs to a dead process."""
    cluster = await open_cluster()
    await cluster.start(1, home="disk-1")
    await cluster.kill(1)
    node = await cluster.start(1, home="disk-1")

    assert cluster.controllers() == [1]
    assert node.metadata.image.controller_epoch == 2


async def test_a_broker_whose_place_was_taken_says_so() -> None:
    """Copies of one disk on two machines: one of the two must go."""
    cluster = await open_cluster(1)
    first = await cluster.start(2, home="copied")
    displaced: list[bool] = []
    first.lifecycle.on_displaced = lambda: displaced.append(True)
    await cluster.start(2, home="copied")

    assert displaced == [True]


async def test_a_registration_that_was_removed_is_made_again() -> None:
    """By an operator's hand, or a script that tidies up: the broker lives all the same."""
    cluster = await open_cluster(1, 2)
    await cluster.session(1).delete(paths.broker(2))
    await quiet()
    await cluster.clock.advance(1000)

    assert cluster.nodes[2].lifecycle.broker_epoch == 2
    assert sorted(cluster.nodes[1].metadata.image.brokers) == [1, 2]


async def test_an_earlier_life_may_be_ended_late_by_the_stores_coarse_clock() -> None:
    """ZooKeeper looks at sessions once in a tick; a restart must not fail for that."""
    cluster = await open_cluster(2)
    shadow = await cluster.store.connect()
    await shadow.create(paths.broker(1), b"{}", ephemeral=True)
    node = BrokerNode(cluster.store, 1, clock=HandClock(), random_start=99)
    starting = asyncio.ensure_future(node.start())
    await quiet()
    await node.clock.advance(1.4 * 18_000)
    assert not starting.done()
    await shadow.close()
    await starting

    assert node.lifecycle.broker_epoch == 1
    await node.kill()


@pytest.mark.parametrize("kind", ["answers_to_lose", "requests_to_lose"])
async def test_an_election_with_a_lost_answer_has_one_winner_who_knows_it(kind: str) -> None:
    """C-03: the winner that thinks it lost, or the loser that thinks it won."""
    cluster = await open_cluster(1)
    node = cluster.nodes[1]
    await node.candidate.end()
    session = cluster.session(1)
    setattr(session, kind, 1)
    await node.candidate.begin(session)
    await quiet()
    await cluster.clock.advance(1000)

    assert cluster.controllers() == [1]
    stored = paths.parse_number((await session.get(paths.CONTROLLER_EPOCH)).data)
    current = node.candidate.controllership
    assert current is not None
    assert current.identity.epoch == stored
    assert await create(node, TopicSpec("t")) == [ErrorCode.NONE]


@pytest.mark.parametrize("kind", ["answers_to_lose", "requests_to_lose"])
async def test_a_write_of_unknown_outcome_makes_the_controller_look_again(kind: str) -> None:
    """P-08: repeating it blindly could do it twice; believing either could lose it."""
    cluster = await open_cluster(1)
    node = cluster.nodes[1]
    setattr(cluster.session(1), kind, 1)

    assert await create(node, TopicSpec("t")) == [ErrorCode.REQUEST_TIMED_OUT]
    await quiet()
    await cluster.clock.advance(1000)
    was_done = kind == "answers_to_lose"
    assert (node.metadata.topic("t") is not None) == was_done
    if was_done:
        assert node.replicas.leaders[("t", 0)] == 1


async def test_a_broker_that_does_not_answer_is_told_later() -> None:
    """Repeating is safe; giving up would leave it behind for ever (C-21)."""
    cluster = await open_cluster(1, 2)
    cluster.dead.add(2)
    creating = asyncio.ensure_future(create(cluster.nodes[1], TopicSpec("t", 2)))
    while not creating.done():
        await cluster.clock.advance(500)
    assert creating.result() == [ErrorCode.NONE]
    assert cluster.nodes[2].metadata.topic("t") is None
    cluster.dead.discard(2)
    await cluster.clock.advance(1000)

    assert cluster.nodes[2].metadata.topic("t") is not None
    assert cluster.nodes[2].replicas.leaders


async def test_a_role_that_was_refused_is_given_again() -> None:
    """C-12: one partition that could not follow must not stay behind its epoch for ever."""
    cluster = await open_cluster(1)
    node = cluster.nodes[1]
    node.replicas.errors[("t", 0)] = ErrorCode.UNKNOWN_SERVER_ERROR
    await create(node, TopicSpec("t"))
    node.replicas.errors.clear()
    told = len(node.replicas.requests)
    await cluster.clock.advance(60_000)

    assert len(node.replicas.requests) == told + 1
    assert node.metadata.leader_of("t", 0) == (1, 0)


async def test_requests_for_an_earlier_life_of_the_broker_are_refused() -> None:
    """C-09: they were meant for a process that is no more."""
    cluster = await open_cluster(1)
    node = cluster.nodes[1]
    await create(node, TopicSpec("t"))
    request = node.replicas.requests[-1]
    node.receiver.broker_epoch += 1
    response = await node.receiver.apply(request)

    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
    request.broker_epoch = node.receiver.broker_epoch + 5
    assert (await node.receiver.apply(request)).error_code == ErrorCode.NONE
    request.controller_epoch = 0
    assert (await node.receiver.apply(request)).error_code == ErrorCode.STALE_CONTROLLER_EPOCH


@pytest.mark.requirement("ZKT-23")
async def test_the_clusters_id_is_made_once() -> None:
    """A data directory belongs to one cluster, recognised by this id (S-32)."""
    cluster = await open_cluster(1, 2)
    cluster_id = cluster.nodes[1].lifecycle.cluster_id

    assert cluster.nodes[2].metadata.cluster_id == cluster_id
    assert len(cluster_id) == 22
    stored = (await cluster.session(1).get(paths.CLUSTER_ID)).data
    assert paths.parse_cluster_id(stored) == cluster_id
