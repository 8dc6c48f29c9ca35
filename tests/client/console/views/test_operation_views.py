"""What the pages about transactions and moves compute."""

from __future__ import annotations

from ottla.client.administration.brokers import LogDirView, ReplicaSize
from ottla.client.administration.placements import ReplicaMove
from ottla.client.console.views.operation_views import held_back, move_rows
from ottla.client.fetching.offsets import OffsetAt
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientError, RequestRefused

Offsets = dict[TopicPartition, OffsetAt | ClientError]
WHERE = [TopicPartition("t", number) for number in range(4)]
FAILURE = RequestRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_partition_is_held_back_where_both_ends_differ() -> None:
    """A partition without an answer says nothing."""
    ends: Offsets = {WHERE[0]: OffsetAt(10, -1), WHERE[1]: OffsetAt(10, -1), WHERE[2]: FAILURE}
    stable: Offsets = {
        WHERE[0]: OffsetAt(4, -1),
        WHERE[1]: OffsetAt(10, -1),
        WHERE[2]: OffsetAt(1, -1),
    }

    assert held_back(ends, stable) == {WHERE[0]: 6}
    assert held_back({WHERE[0]: OffsetAt(1, -1)}, {WHERE[0]: FAILURE}) == {}


def _directory(node_id: int, sizes: dict[TopicPartition, int], is_future: bool) -> LogDirView:
    replicas = tuple(ReplicaSize(where, size, 0, is_future) for where, size in sizes.items())
    return LogDirView(node_id, "/data", -1, -1, replicas, None)


def test_the_progress_of_a_move_is_that_of_its_new_replicas() -> None:
    """A copy within a broker, to another disk, is no part of it."""
    moves = {
        WHERE[0]: ReplicaMove((1, 2, 3), (2, 3), (1,)),
        WHERE[1]: ReplicaMove((1, 2), (2,), ()),
    }
    log_dirs: dict[int, list[LogDirView] | ClientError] = {
        1: [_directory(1, {WHERE[0]: 1000, WHERE[1]: 0}, False)],
        2: [_directory(2, {WHERE[0]: 500}, False), _directory(2, {WHERE[0]: 900}, True)],
        3: FAILURE,
    }

    first, second = move_rows(moves, log_dirs)

    assert (first["copied_bytes"], first["wanted_bytes"], first["percent"]) == (500, 2000, 25.0)
    assert (first["adding"], first["removing"]) == ([2, 3], [1])
    assert second["percent"] is None
