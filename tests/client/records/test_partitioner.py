"""Choosing partitions."""

from __future__ import annotations

import pytest

from ottla.client.records.partitioner import StickyPartitioner, murmur2, partition_for_key

# Values that Kafka's own client computes; the signed form is what Java prints.
JAVA_HASHES = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
    (b"", 275646681),
    (b"user-42", 1459644460),
    (bytes.fromhex("0000002a"), 1606757304),
]


def signed(number: int) -> int:
    """The value as Java's signed 32 bits."""
    return number - 2**32 if number >= 2**31 else number


@pytest.mark.parametrize(("key", "expected"), JAVA_HASHES)
def test_murmur2_is_the_one_of_the_java_client(key: bytes, expected: int) -> None:
    """Producers in two languages must put one key into one partition."""
    assert signed(murmur2(key)) == expected


@pytest.mark.parametrize(
    ("key", "partition_count", "expected"),
    [(b"21", 50, 40), (b"foobar", 12, 6), (b"abc", 6, 3), (b"user-42", 12, 4), (b"", 50, 31)],
)
@pytest.mark.requirement("PRD-16")
def test_a_key_has_one_partition(key: bytes, partition_count: int, expected: int) -> None:
    """The sign bit is dropped, not negated: abs() of the smallest integer is negative in Java."""
    assert partition_for_key(key, partition_count) == expected


def first(_limit: int) -> int:
    """No chance at all."""
    return 0


def test_records_without_key_stick_to_one_partition_until_its_batch_is_full() -> None:
    """KIP-480: spreading single records makes as many small batches as there are partitions."""
    partitioner = StickyPartitioner(first)
    partitions = range(3)

    chosen = [partitioner.choose("t", 3, partitions) for _ in range(5)]
    moved = partitioner.move_on("t", chosen[0], 3, partitions)

    assert chosen == [0] * 5
    assert moved == 1
    assert partitioner.choose("t", 3, partitions) == 1


def test_two_batches_that_end_together_move_on_once() -> None:
    """The second one's partition has been left already."""
    partitioner = StickyPartitioner(first)
    partitioner.choose("t", 3, range(3))
    partitioner.move_on("t", 0, 3, range(3))

    assert partitioner.move_on("t", 0, 3, range(3)) == 1


def test_a_partition_without_leader_is_avoided() -> None:
    """Records without a key can go anywhere, so they need not wait for an election."""
    partitioner = StickyPartitioner(first)

    assert partitioner.choose("t", 3, [2]) == 2
    assert partitioner.move_on("t", 2, 3, [2]) == 2


def test_without_any_leader_a_partition_is_chosen_all_the_same() -> None:
    """The record then waits in memory for the leader."""
    assert StickyPartitioner(first).choose("t", 3, []) == 0


def test_topics_do_not_disturb_each_other() -> None:
    """Each topic fills its own batch."""
    partitioner = StickyPartitioner(first)
    partitioner.choose("t", 3, range(3))
    partitioner.move_on("t", 0, 3, range(3))

    assert partitioner.choose("u", 3, range(3)) == 0


def test_a_topic_that_was_made_again_with_fewer_partitions_is_chosen_anew() -> None:
    """The old choice may not exist any more."""
    partitioner = StickyPartitioner(lambda limit: limit - 1)
    partitioner.choose("t", 8, range(8))

    assert partitioner.choose("t", 2, range(2)) == 1
    assert partitioner.choose("u", 8, range(8)) == 7
    assert partitioner.move_on("u", 0, 2, range(2)) == 1


def test_nothing_is_drawn_where_there_is_no_choice() -> None:
    """Real randomness comes from the kernel, and a batch ends every millisecond."""
    limits: list[int] = []

    def below(limit: int) -> int:
        limits.append(limit)
        return 0

    partitioner = StickyPartitioner(below)

    assert partitioner.choose("t", 1, [0]) == partitioner.move_on("t", 0, 1, [0]) == 0
    assert partitioner.move_on("u", 0, 3, [2]) == 2
    assert limits == []
