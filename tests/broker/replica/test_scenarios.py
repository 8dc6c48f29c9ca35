"""Stories of several replicas, told step by step."""

from __future__ import annotations

import pytest

from ottla.broker.replica.isr import ChangeOutcome
from ottla.broker.replica.leading import PartitionLeadership
from ottla.broker.replica.producer import AppendAction
from ottla.broker.replica.producers import ProducerTable
from tests.broker.replica.support.batches import data_batch
from tests.broker.replica.support.nodes import Node, catch_up, fetch, receive

A, B, C = 0, 1, 2
M1, M2, M3, M4 = 101, 102, 103, 104


def values(entries: list[tuple[int, int]]) -> list[int]:
    return [value for _epoch, value in entries]


def step(follower: Node, leader: Node, count: int) -> None:
    """One fetch of at most that many records, answered and taken in."""
    answer = fetch(follower, leader, count, now_ms=0)
    assert answer is not None
    receive(follower, answer)


@pytest.mark.requirement("REP-03", "REP-16", "REP-17")
def test_a_record_that_only_the_dead_leader_had_is_lost() -> None:
    """A holds m1 m2 m3, B m1 m2, C m1. Only m1 is readable. A dies: m2 stays, m3 was never
    acknowledged."""
    a, b, c = nodes = [Node(node_id) for node_id in (A, B, C)]
    first = PartitionLeadership(A, 1, 0, (A, B, C), (A, B, C))
    a.replica.become_leader(first, now_ms=0)
    for follower in (b, c):
        follower.replica.become_follower(first)
    a.produce([M1, M2, M3], now_ms=0)
    step(b, a, 2)
    step(c, a, 1)
    # The next fetches tell the leader what the followers have; their answers are lost.
    for follower in (b, c):
        fetch(follower, a, 0, now_ms=0)
    assert [values(node.log) for node in nodes] == [[M1, M2, M3], [M1, M2], [M1]]
    assert values(a.visible) == [M1]

    a.save()
    second = PartitionLeadership(B, 2, 1, (B, C), (A, B, C))
    b.replica.become_leader(second, now_ms=0)
    c.replica.become_follower(second)
    catch_up(c, b, now_ms=0)
    assert [values(node.visible) for node in (b, c)] == [[M1, M2], [M1, M2]]

    a.start()
    a.replica.become_follower(second)
    b.produce([M4], now_ms=1)
    catch_up(c, b, now_ms=1)
    catch_up(a, b, now_ms=1)
    assert [values(node.log) for node in nodes] == [[M1, M2, M4]] * 3
    assert a.log == b.log == c.log

    leading = b.replica.leading
    assert leading is not None
    change = leading.propose(b.replica.high_watermark, len(b.log), now_ms=1, asking=A)
    assert change is not None
    leading.on_answer(change, ChangeOutcome.APPLIED, 2)
    assert sorted(leading.in_sync.committed) == [A, B, C]


def test_a_follower_restarts_and_its_leader_dies_within_one_fetch() -> None:
    """KIP-101's first scenario: cutting to the own watermark would lose m2 on both (R-01)."""
    a, b = Node(A), Node(B)
    first = PartitionLeadership(B, 1, 0, (A, B), (A, B))
    b.replica.become_leader(first, now_ms=0)
    a.replica.become_follower(first)
    b.produce([M1, M2], now_ms=0)
    step(a, b, 2)
    fetch(a, b, 0, now_ms=0)
    assert values(b.visible) == [M1, M2]
    assert values(a.visible) == []

    a.save()
    a.start()
    a.replica.become_follower(first)
    a.replica.become_leader(PartitionLeadership(A, 2, 1, (A,), (A, B)), now_ms=0)
    assert values(a.visible) == [M1, M2]


def test_two_replicas_die_and_return_in_the_other_order() -> None:
    """KIP-101's second scenario: the same offset must not hold two values (R-02)."""
    a, b = Node(A), Node(B)
    first = PartitionLeadership(A, 1, 0, (A, B), (A, B))
    a.replica.become_leader(first, now_ms=0)
    b.replica.become_follower(first)
    a.produce([M1, M2], now_ms=0)
    step(b, a, 1)
    for node in (a, b):
        node.save()
        node.start()
    second = PartitionLeadership(B, 2, 1, (B,), (A, B))
    b.replica.become_leader(second, now_ms=0)
    b.produce([M3], now_ms=0)
    a.replica.become_follower(second)
    catch_up(a, b, now_ms=0)

    assert values(a.log) == values(b.log) == [M1, M3]


@pytest.mark.requirement("REP-18")
def test_two_of_three_may_die() -> None:
    """Whatever two: the third has every committed record and leads on."""
    nodes = [Node(node_id) for node_id in (A, B, C)]
    first = PartitionLeadership(A, 1, 0, (A, B, C), (A, B, C))
    nodes[A].replica.become_leader(first, now_ms=0)
    for follower in nodes[1:]:
        follower.replica.become_follower(first)
    nodes[A].produce([M1, M2], now_ms=0)
    for follower in nodes[1:]:
        catch_up(follower, nodes[A], now_ms=0)
    nodes[A].produce([M3], now_ms=0)
    committed = values(nodes[A].visible)

    assert committed == [M1, M2]
    for survivor in nodes:
        survivor.save()
        survivor.start()
        alone = PartitionLeadership(survivor.node_id, 2, 1, (survivor.node_id,), (A, B, C))
        survivor.replica.become_leader(alone, now_ms=0)
        assert values(survivor.visible)[:2] == committed


@pytest.mark.requirement("IDM-14")
def test_a_new_leader_knows_what_producers_have_written() -> None:
    """The follower learnt it from the batches; the retry after a failover is no new record."""
    leader, follower = ProducerTable(), ProducerTable()
    for index in range(6):
        batch = data_batch(index * 10, count=10, at=index * 10)
        assert leader.judge(batch).action is AppendAction.APPEND
        leader.observe(batch)
        follower.observe(batch)
    retries = [follower.judge(data_batch(start, count=10)) for start in range(10, 60, 10)]

    assert [retry.action for retry in retries] == [AppendAction.DUPLICATE] * 5
    assert [retry.base_offset for retry in retries] == [10, 20, 30, 40, 50]
    assert follower.judge(data_batch(60, count=10)).action is AppendAction.APPEND
