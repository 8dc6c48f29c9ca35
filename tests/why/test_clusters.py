"""The claims about clusters: each program's quick form runs, and its claim holds."""

from __future__ import annotations

import pytest

from examples.why import acks, cap, election, exactly_once, pull, queues_and_topics

# They wait for brokers. One that does not come would be waited for until the default of minutes.
pytestmark = pytest.mark.timeout(90)


@pytest.mark.requirement("BGD-01")
def test_a_cut_cluster_refuses_writes_or_risks_them() -> None:
    """A reader has to see both prices of a partition: writes that are refused, and writes that are
    accepted and lost."""
    consistent, available = cap.measure(True)

    assert consistent.topic == cap.CONSISTENT
    assert cap.CONFIGS[cap.CONSISTENT] == {
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    }
    assert (consistent.accepted, consistent.refused, consistent.lost) == (0, consistent.sent, 0)
    assert (available.accepted, available.refused) == (available.sent, 0)
    assert available.lost > 0
    assert consistent.lost_from_before == 0
    assert cap.show([consistent, available]).holds


@pytest.mark.requirement("BGD-02")
def test_records_that_only_the_leader_acknowledged_die_with_it() -> None:
    """acks=1 is faster and loses what the followers do not have; acks=all loses nothing."""
    safe, quick = acks.measure(True)
    shown = acks.show([safe, quick])

    assert (safe.acks, quick.acks) == ("all", 1)
    assert safe.acknowledged == quick.acknowledged == safe.found > 0
    assert safe.lost == 0
    assert quick.lost > 0
    # acks=all waits for a follower's fetch as well.
    assert safe.p50_ms > quick.p50_ms > 0
    assert f"{safe.p50_ms:.2f} ms" in shown.table[1]
    assert f"{quick.p99_ms:.2f} ms" in shown.table[2]


def test_one_in_sync_replica_goes_on_where_a_majority_stops() -> None:
    """That is what an election among in-sync replicas buys; it is the figure of the design page."""
    steps = election.measure(True)

    assert [step.alive for step in steps] == [3, 2, 1]
    assert len({step.leader for step in steps}) == 3
    assert all(step.found == step.acknowledged > 0 for step in steps)
    assert [step.majority_goes_on for step in steps] == [True, True, False]
    assert election.show(steps).holds


@pytest.mark.requirement("BGD-10")
def test_a_slow_consumer_that_pulls_takes_nothing_from_the_others() -> None:
    """The fast one gets everything beside eight consumers that hardly read, and the broker keeps
    nothing for these; each policy of a broker that pushes has a victim."""
    both = pull.measure(True)
    wait, keep, drop = both.pushed

    for one in (both.alone, both.beside):
        assert one.fast_mb > 0.99 * one.produced_mb > 10
    assert 0 < both.beside.slow_mb < both.beside.produced_mb / 100
    assert both.beside.growth_mib < both.beside.produced_mb / 4
    assert wait.fast < keep.fast / 5
    assert keep.longest_queue > keep.produced / 2
    assert drop.lost > drop.produced / 2
    assert pull.show(both).holds


@pytest.mark.requirement("BGD-11")
def test_one_group_is_a_queue_and_several_groups_are_a_topic() -> None:
    """Users of JMS look for these two, and find one mechanism."""
    queue, topic = queues_and_topics.measure(True)

    assert queue.times_delivered == {1: queues_and_topics.RECORDS}
    assert len(queue.by_consumer) == 4
    assert all(queue.by_consumer)
    assert topic.times_delivered == {4: queues_and_topics.RECORDS}
    assert topic.by_consumer == [queues_and_topics.RECORDS] * 4
    assert queues_and_topics.show([queue, topic]).holds


def test_a_dead_partition_has_no_vote_and_a_repeated_record_is_stored_once() -> None:
    """What the transactions page says about two-phase commit and about delivery, as figures."""
    outcome = exactly_once.measure(True)

    assert outcome.meanwhile == {0: 1, 1: 1}
    assert outcome.afterwards == {0: 1, 1: 1, 2: 1}
    assert outcome.sent_twice_stored == 1
    assert exactly_once.show(outcome).holds
