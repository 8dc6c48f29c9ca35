"""Finding the partition whose fetch response exceeds the size limit."""

from __future__ import annotations

from ottla.client.fetching.oversized_partition import OversizeSearch
from ottla.protocol.ids import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_each_is_asked_for_alone_until_it_has_answered() -> None:
    """Suspects that cannot be fetched now are not waited for."""
    oversize = OversizeSearch()
    oversize.suspect(1, [A, B, C])

    assert oversize.alone(1, [C, B, A]) == A
    oversize.answered(1, [A])
    assert oversize.alone(1, [A, C]) == C
    oversize.answered(1, [C])
    assert oversize.alone(1, [A, B, C]) is None


def test_other_brokers_are_not_suspected() -> None:
    """Partitions of other brokers are still fetched together."""
    oversize = OversizeSearch()
    oversize.suspect(1, [A])

    assert oversize.alone(2, [A, B]) is None
    oversize.answered(2, [A])
    assert oversize.alone(1, [A, B]) == A
