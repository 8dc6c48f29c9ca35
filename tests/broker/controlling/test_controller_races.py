"""Others write to the store in the moment in which the controller does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.administration.cluster_admin import PartitionsSpec, TopicSpec
from ottla.broker.administration.partition_admin import MoveSpec
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Replace
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.broker.support.cluster import Cluster, open_cluster
from tests.broker.support.node import TIMEOUT_MS, quiet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ottla.coordinator.store.store import Operation, OperationResult

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def three(assignment: dict[int, list[int]]) -> Cluster:
    """Broker 1 is the controller."""
    cluster = await open_cluster(1, 2, 3)
    await cluster.create(TopicSpec("t", assignment=assignment))
    assert cluster.controllers() == [1]
    return cluster


def meddle(
    cluster: Cluster,
    is_meant: Callable[[Sequence[Operation]], bool],
    act: Callable[[], Awaitable[object]],
) -> list[int]:
    """Do something else right before the controller's first write of that kind; where that was, in
    the number of its writes."""
    session = cluster.session(1)
    multi = session.multi
    sizes: list[int] = []

    async def hurried(operations: Sequence[Operation]) -> list[OperationResult]:
        if not sizes and is_meant(operations):
            sizes.append(len(operations))
            await act()
        return await multi(operations)

    session.multi = hurried  # type: ignore[method-assign]
    return sizes


def touches(path: str) -> Callable[[Sequence[Operation]], bool]:
    return lambda operations: any(one.path == path for one in operations)


async def away_and_back(cluster: Cluster, node_id: int) -> None:
    """The broker is in sync again, and leads nothing."""
    await cluster.kill(node_id)
    await cluster.expire(node_id)
    await cluster.start(node_id)
    for index in range(2):
        await cluster.leader_writes(TopicPartition("t", index), (1, 3))


async def test_a_wish_for_preferred_leaders_that_was_withdrawn_is_forgotten() -> None:
    """Decided upon again as it had been read, it would be refused again, until the controller
    gives up its office."""
    cluster = await three({0: [3, 1], 1: [3, 1]})
    await away_and_back(cluster, 3)
    wish = paths.PREFERRED_ELECTION
    sizes = meddle(cluster, touches(wish), lambda: cluster.session(2).delete(wish))
    await cluster.session(3).create(wish, paths.build_partition_list([T0]))
    await quiet()

    assert sizes
    assert cluster.controllers() == [1]
    image = cluster.nodes[2].metadata.image
    assert image.controller_epoch == 1
    assert cluster.nodes[2].metadata.leader_of(*T0)[0] == 1


async def test_a_wish_for_preferred_leaders_that_was_changed_is_read_again() -> None:
    """Taken away as it had been read, what was added would never be done."""
    cluster = await three({0: [3, 1], 1: [3, 1]})
    await away_and_back(cluster, 3)
    wish = paths.PREFERRED_ELECTION
    both = paths.build_partition_list([T0, T1])
    sizes = meddle(cluster, touches(wish), lambda: cluster.session(2).set(wish, both))
    await cluster.session(3).create(wish, paths.build_partition_list([T0]))
    await quiet()

    assert sizes
    assert [cluster.nodes[2].metadata.leader_of(*item)[0] for item in (T0, T1)] == [3, 3]
    assert await cluster.session(2).exists(wish) is None


async def live_again(cluster: Cluster, node_id: int) -> None:
    """The broker's next life has registered: it went down with the power, and is back."""
    session = cluster.session(2)
    found = await session.get(paths.broker(node_id))
    payload = paths.parse_broker(found.data)
    assert payload is not None
    await session.set(paths.generation(node_id), b"")
    data = paths.build_broker(payload._replace(generation=payload.generation + 1))
    await session.set(paths.broker(node_id), data)


async def test_no_broker_becomes_the_last_of_an_isr_after_its_session_has_ended() -> None:
    """R-23: broker 3 has lost the end of its log, which broker 2 has, and 2 is about to stop. What
    the controller hears first must not decide whether acknowledged records are kept."""
    cluster = await three({0: [2, 3]})
    generation = cluster.nodes[2].lifecycle.broker_epoch
    sizes = meddle(cluster, touches(paths.state(*T0)), partial(live_again, cluster, 3))
    result = await cluster.nodes[1].admin.partitions.relieve(2, generation, TIMEOUT_MS)
    await quiet()

    assert sizes
    assert result.remaining == (T0,)
    state = cluster.nodes[1].metadata.image.partition(*T0)
    assert state is not None
    assert (state.leader, state.isr) == (2, (2,))


async def test_replicas_are_not_deleted_for_the_sake_of_one_that_may_have_lost_records() -> None:
    """The same in the step of a move that takes the old replicas out: they are all there is."""
    cluster = await three({0: [2]})
    admin = cluster.nodes[1].admin.partitions
    moves = [MoveSpec(T0, (3,))]
    await admin.alter_moves(moves, allow_factor_change=True, timeout_ms=TIMEOUT_MS)
    shrunk = paths.build_state(paths.StatePayload(3, 3, (3,), 1))

    def takes_the_old_out(operations: Sequence[Operation]) -> bool:
        return any(isinstance(one, Replace) and one.data == shrunk for one in operations)

    sizes = meddle(cluster, takes_the_old_out, partial(live_again, cluster, 3))
    await cluster.leader_writes(T0, (2, 3))
    await quiet()

    assert sizes
    state = cluster.nodes[1].metadata.image.partition(*T0)
    assert state is not None
    assert (state.leader, state.isr, state.replicas) == (2, (2,), (3, 2))
    assert cluster.nodes[2].replicas.deleted == []


async def add_by_hand(cluster: Cluster, index: int, *replicas: int) -> None:
    """What Kafka's older tools do to give a topic another partition."""
    session = cluster.session(2)
    found = await session.get(paths.topic("t"))
    payload = paths.parse_topic(found.data)
    assert payload is not None
    partitions = {**payload.partitions, index: replicas}
    data = paths.build_topic(payload._replace(partitions=partitions))
    await session.set(paths.topic("t"), data, found.stat.version)


async def test_partitions_that_were_added_by_hand_survive_a_move() -> None:
    """Written as it was known to the controller, the assignment would forget them, and their
    records with them."""
    cluster = await three({0: [3, 1]})
    moves = [MoveSpec(T0, (2, 1))]
    sizes = meddle(cluster, touches(paths.topic("t")), partial(add_by_hand, cluster, 1, 2, 3))
    admin = cluster.nodes[1].admin.partitions
    results = await admin.alter_moves(moves, allow_factor_change=True, timeout_ms=TIMEOUT_MS)
    await quiet()
    await cluster.leader_writes(T0, (3, 1, 2))

    assert sizes
    assert [one.error_code for one in results] == [ErrorCode.NONE]
    payload = paths.parse_topic((await cluster.session(2).get(paths.topic("t"))).data)
    assert payload is not None
    assert payload.partitions == {0: (2, 1), 1: (2, 3)}
    topic = cluster.nodes[3].metadata.image.topics["t"]
    assert {index: state.leader for index, state in topic.partitions.items()} == {0: 2, 1: 2}


async def test_partitions_that_were_added_by_hand_are_not_assigned_anew() -> None:
    """If the controller assigned partition 1 a second time, its old records would be
    unreachable."""
    cluster = await three({0: [3, 1]})
    sizes = meddle(cluster, touches(paths.topic("t")), partial(add_by_hand, cluster, 1, 2, 3))
    results = await cluster.nodes[1].admin.create_partitions(
        [PartitionsSpec("t", 3)], validate_only=False, timeout_ms=TIMEOUT_MS
    )

    assert sizes
    assert [one.error_code for one in results] == [ErrorCode.NONE]
    topic = cluster.nodes[3].metadata.image.topics["t"]
    assert sorted(topic.partitions) == [0, 1, 2]
    assert topic.partitions[1].replicas == (2, 3)


async def test_topics_of_a_request_that_is_refused_half_way_are_made_once() -> None:
    """The first group of writes belongs to this request: if it were answered TOPIC_ALREADY_EXISTS,
    the client would take the topic for another client's."""
    cluster = await three({0: [3, 1]})
    odd = paths.partition("big", 1100)
    sizes = meddle(cluster, touches(odd), lambda: cluster.session(2).create(odd))
    specs = [TopicSpec("t", 1, 1), TopicSpec("small", 1, 1), TopicSpec("big", 1200, 1)]
    results = await cluster.nodes[1].admin.create_topics(
        specs, validate_only=False, timeout_ms=TIMEOUT_MS
    )

    assert sizes
    assert [(one.name, one.error_code) for one in results] == [
        ("t", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("small", ErrorCode.NONE),
        ("big", ErrorCode.NONE),
    ]
    topics = cluster.nodes[3].metadata.image.topics
    assert results[2].topic_id == topics["big"].topic_id
    assert results[2].partition_count == len(topics["big"].partitions) == 1200
    assert all(state.leader > 0 for state in topics["big"].partitions.values())


async def test_partitions_of_a_request_that_is_refused_half_way_are_added_once() -> None:
    """Asked for again, the number would not be larger any more."""
    cluster = await three({0: [3, 1]})
    odd = paths.partition("t", 1100)
    sizes = meddle(cluster, touches(odd), lambda: cluster.session(2).create(odd))
    results = await cluster.nodes[1].admin.create_partitions(
        [PartitionsSpec("t", 1200)], validate_only=False, timeout_ms=TIMEOUT_MS
    )

    assert sizes
    assert [one.error_code for one in results] == [ErrorCode.NONE]
    partitions = cluster.nodes[3].metadata.image.topics["t"].partitions
    assert len(partitions) == 1200
    assert all(state.leader > 0 for state in partitions.values())


async def test_a_deletion_that_is_refused_half_way_says_what_is_gone() -> None:
    """Asked for again, a topic that went with the first group would be unknown."""
    cluster = await three({0: [3, 1]})
    await cluster.create(TopicSpec("big", 600, 1))
    odd = f"{paths.topic('big')}/odd"
    sizes = meddle(cluster, touches(paths.topic("big")), lambda: cluster.session(2).create(odd))
    results = await cluster.nodes[1].admin.delete_topics(["t", "big"], timeout_ms=TIMEOUT_MS)

    assert sizes
    assert [(one.name, one.error_code) for one in results] == [
        ("t", ErrorCode.NONE),
        ("big", ErrorCode.NONE),
    ]
    assert not cluster.nodes[3].metadata.image.topics
    assert await cluster.session(2).children(paths.TOPICS) == []
