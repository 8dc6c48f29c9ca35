"""Asking brokers again: less and less often, and believing each answer once."""

from __future__ import annotations

from itertools import pairwise

from ottla.broker.controlling.lost_replicas import (
    DELAY_MAX_MS,
    FIRST_DELAY_MS,
    REFUSED_ROLE_RETRY_MS,
    LostReplicas,
    RefusedRoles,
)
from ottla.coordinator.controller.specs import TopicSpec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.broker.support.cluster import open_cluster
from tests.broker.support.node import quiet
from tests.broker.support.scratch import HandClock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DAY_MS = 86_400_000.0


class Site:
    """A broker that cannot serve something, each time it is asked."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.asked_ms: list[float] = []
        self.still_fails = True
        self.lost = LostReplicas(self.clock, self.ask)

    def ask(self, node_id: int) -> None:
        assert node_id == 1
        self.asked_ms.append(self.clock.now_ms())
        if self.still_fails:
            self.lost.failed(1)


def test_a_dead_disk_is_asked_less_and_less_often() -> None:
    """A dead disk looks the same as a full one; one attempt every few minutes costs nothing."""
    site = Site()
    site.lost.failed(1)
    site.lost.failed(1)
    site.clock.advance_to(DAY_MS)
    gaps = [later - earlier for earlier, later in pairwise(site.asked_ms)]

    assert site.asked_ms[0] == FIRST_DELAY_MS
    assert gaps[0] == 2 * FIRST_DELAY_MS
    assert gaps == sorted(gaps)
    assert gaps[-1] == DELAY_MAX_MS
    assert site.clock.armed_count == 1
    site.lost.stop()
    assert site.clock.armed_count == 0


def test_after_a_quiet_time_a_failure_is_a_first_one() -> None:
    """Today's full disk has nothing to do with yesterday's."""
    site = Site()
    site.lost.failed(1)
    site.still_fails = False
    site.clock.advance_to(DAY_MS)
    site.lost.failed(1)
    site.clock.advance_to(2 * DAY_MS)

    assert site.asked_ms == [FIRST_DELAY_MS, DAY_MS + FIRST_DELAY_MS]


def test_an_answer_counts_once_and_only_if_there_was_a_question() -> None:
    """A replica that fails as soon as it leads would change hands as fast as requests travel."""
    site = Site()
    before = site.lost.take_back(1, [T0])
    site.lost.asked(1, [T0])

    assert before == ()
    assert site.lost.take_back(1, [T1, T0]) == (T0,)
    assert site.lost.take_back(1, [T0]) == ()


async def test_a_partition_whose_disk_was_full_is_led_once_there_is_room() -> None:
    """It was without a leader until the broker was restarted."""
    cluster = await open_cluster(1)
    node = cluster.nodes[1]
    await node.ready()
    node.replicas.errors["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
    await node.admin.create_topics([TopicSpec("t")], validate_only=False, timeout_ms=1000)
    await quiet()
    leaderless = node.metadata.leader_of("t", 0)[0]
    del node.replicas.errors["t", 0]
    await cluster.clock.advance(FIRST_DELAY_MS)

    assert leaderless == -1
    assert node.metadata.leader_of("t", 0)[0] == 1
    assert node.replicas.leaders["t", 0] == 1


def test_refused_roles_are_gathered_and_told_again_once() -> None:
    """C-12: each refusal with a timer of its own would repeat what was repeated already."""
    clock = HandClock()
    told: list[tuple[int, tuple[TopicPartition, ...]]] = []
    refused = RefusedRoles(clock, lambda *again: told.append(again))
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    refused.refused(1, [second])
    refused.refused(2, [first])
    clock.advance_to(REFUSED_ROLE_RETRY_MS / 2)
    refused.refused(1, [first, second])
    clock.advance_to(REFUSED_ROLE_RETRY_MS)

    assert told == [(1, (first, second)), (2, (first,))]
    refused.refused(1, [first])
    refused.stop()
    clock.advance_to(4 * REFUSED_ROLE_RETRY_MS)
    assert len(told) == 2
