"""Fetch requests that the lean codec reads: one partition, for a consumer without a session.

They take the steps of ``fetch.handle``: authorizer, judging the position, reading, the question
whether to wait, the test for cold pages (partitions/reading.py). What is lean is the request, read
without objects, and the answer with records, written without objects. All other answers are left
to ``fetch.handle``, which repeats the steps: a fetch changes nothing until it is answered or
parked. HOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.partitions.reading import read_at_once
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.records.follower_fetch import VERSIONS, is_request
from ottla.protocol.records.straight_fetch import (
    FETCH_VERSIONS,
    answer_end,
    fetch_answer,
    fetch_reader,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.context import ClientPeer
    from ottla.broker.handlers.services import Services, Straight, StraightAnswer

_READ_COMMITTED = 1
_ISOLATION_LEVELS = (0, _READ_COMMITTED)
_READ = Operation.READ
_TOPIC = AclResourceType.TOPIC
_TOPIC_ID_VERSION = 13
# Of a request without its header, from which on it may name sixteen partitions.
MANY_BYTES = 480


def straight(
    version: int, load_many: Callable[[], Callable[[int], Straight | None]]
) -> Straight | None:
    """What serves the requests of that version that the lean codec reads; None if it reads none.

    ``load_many``: loads what makes the same for requests that name many partitions. The fetches of
    followers have a way of their own (handlers/follower_fetch.py)."""
    if version not in FETCH_VERSIONS:
        return None
    read, answer, end = fetch_reader(version), fetch_answer(version), answer_end(version)
    by_id = version >= _TOPIC_ID_VERSION
    made: list[Straight | None] = []
    may_be_followers = version in VERSIONS
    followers: list[Straight] = []

    def many(
        services: Services, peer: ClientPeer, frame: memoryview, body: int, correlation_id: int
    ) -> StraightAnswer:
        if len(frame) - body < MANY_BYTES:
            return None
        if not made:
            made.append(load_many()(version))
        serve = made[0]
        return serve and serve(services, peer, frame, body, correlation_id)

    def fetch(
        services: Services, peer: ClientPeer, frame: memoryview, body: int, correlation_id: int
    ) -> StraightAnswer:
        asked = read(frame, body)
        if asked is None:
            if may_be_followers and is_request(frame):
                if not followers:
                    followers.append(_load_follower_fetch()(version))
                return followers[0](services, peer, frame, body, correlation_id)
            return many(services, peer, frame, body, correlation_id)
        wait_ms, min_bytes, max_bytes, level, named, index, epoch, offset, has_rack, again = asked
        if level not in _ISOLATION_LEVELS or (has_rack and services.reads.sends_to_racks):
            return None
        topic: str | None = services.metadata.topic_name(named) if by_id else named
        if topic is None:
            return None
        partition = services.partitions.find(topic, index)
        if partition is None or not services.authorizer.is_allowed(peer, _READ, _TOPIC, topic):
            return None
        if by_id and partition.log.topic_id != named:
            return None
        committed = level == _READ_COMMITTED
        limits = min(max_bytes, services.reads.fetch_max_bytes), min_bytes, wait_ms
        found = read_at_once(partition, offset, epoch, committed, limits)
        if found is None:
            return None
        _, watermark, stable_offset, log_start, region, _, _ = found
        assert region is not None, "it is read at once only where there are records"
        size_bytes = region.size_bytes
        partition.traffic.fetched_bytes += size_bytes
        offsets = watermark, stable_offset, log_start, committed
        out = answer(correlation_id, again, index, offsets, size_bytes)
        return (out, region, end) if end else (out, region)

    return fetch


def _load_follower_fetch() -> Callable[[int], Straight]:
    """A broker that leads for no followers never loads it."""
    from ottla.broker.handlers.follower_fetch import follower_fetch

    return follower_fetch
