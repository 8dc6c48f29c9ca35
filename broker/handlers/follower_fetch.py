"""A follower's fetch that continues its session and names no partitions but those of the session.

It takes the steps of ``fetch.handle``: rights, session, the follower's progress, reading, waiting.
What is lean is the request, read without objects, and the answer without errors, written without
objects. Small records are read into the answer: handing them over as a file region takes two more
calls into the kernel. What may end in another way is left to ``fetch.handle`` before anything has
changed. HOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.context import RequestContext, spliced
from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.handlers.fetch_answers import count_sent, full_response, withhold
from ottla.broker.handlers.shared import seems_broker
from ottla.broker.partitions.fetch_session import news_of
from ottla.broker.partitions.follower_reads import QuietPartitions
from ottla.broker.partitions.partition_read import FetchPlan, PartitionFetch
from ottla.coordinator.configs.broker_principals import may_speak_as
from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import response_header
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.ports import FileRegion
from ottla.protocol.records.follower_fetch import read_request, write_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.engine.context import ClientPeer, ReplyPart
    from ottla.broker.handlers.services import Services, Straight, StraightAnswer
    from ottla.broker.partitions.fetch_session import PartitionKey, Session
    from ottla.broker.partitions.partition_read import PartitionRead
    from ottla.protocol.records.follower_fetch import FollowerPosition, FollowerRequest

_NONE = ErrorCode.NONE
# Reading and joining 1 KiB costs 5 us less than the two calls, 64 KiB 3 us less, 256 KiB 3 us more.
READ_BYTES_MAX = 64 * 1024


def follower_fetch(version: int) -> Straight:
    """What serves the requests of that version; the answer is None for all that it does not."""

    def fetch(
        services: Services, peer: ClientPeer, frame: memoryview, body: int, correlation_id: int
    ) -> StraightAnswer:
        request = read_request(frame, body)
        if request is None:
            return None
        wait_ms, least, most, *_, node_id, broker_epoch, asked = request
        now_ms = services.ports.clock.now_ms()
        context = RequestContext(peer, ApiKey.FETCH, version, correlation_id, "", now_ms)
        session = _session_of(services, context, request)
        if session is None:
            return None
        changed = [_wanted(services, session, one) for one in asked]
        named = {(one[0], one[1]) for one in asked}
        if None in changed or len(named) < len(asked):
            return None
        memory = session.memory
        assert isinstance(memory, QuietPartitions)
        if not all(key in named or _is_fresh(services, session, key) for key in memory.restless):
            return None
        session.go_on(now_ms)
        session.merge((((one.topic_id, one.partition), one) for one in changed if one), ())
        plan = FetchPlan(
            session.unsettled(),
            wait_ms,
            min(least, most),
            most,
            False,
            node_id,
            True,
            broker_epoch,
            quietness=memory,
        )
        rules = services.authorizer.version

        def respond(reads: list[PartitionRead]) -> Sequence[ReplyPart]:
            if services.authorizer.version != rules:
                withhold(services, context, reads, node_id)
            news = news_of(session, reads)
            count_sent(services, news, is_follower=True)
            return _written(services, context, session.session_id, news)

        answer = services.reads.fetch(context, plan, respond)
        assert isinstance(answer, list | DeferredAnswer), "what is fresh is in memory"
        return answer

    return fetch


def _session_of(
    services: Services, context: RequestContext, request: FollowerRequest
) -> Session | None:
    """The session that the request continues, if it is in order and its partitions need not be
    resolved again."""
    _, _, _, session_id, epoch, node_id, _, _ = request
    session = services.reads.sessions.find(session_id)
    if (
        session is None
        or session.epoch != epoch
        or session.ask.owner != (context.principal, node_id)
        or not session.ask.uses_topic_ids
        or not isinstance(session.memory, QuietPartitions)
        or session.version is not services.authorizer.stamp(services.metadata.image)
        or not may_speak_as(services.config.broker_principals, context.principal, node_id)
        or not seems_broker(services, context)
    ):
        return None
    return session


def _wanted(
    services: Services, session: Session, position: FollowerPosition
) -> PartitionFetch | None:
    topic_id, index, leader_epoch, offset, last_epoch, start_offset, limit = position
    known = session.get((topic_id, index))
    if known is None or known.error_code is not _NONE or limit < 0:
        return None
    wanted = PartitionFetch(
        known.topic,
        index,
        offset,
        limit,
        max(-1, leader_epoch),
        max(-1, last_epoch),
        _NONE,
        start_offset,
        topic_id,
    )
    return wanted if _is_in_memory(services, wanted) else None


def _is_fresh(services: Services, session: Session, key: PartitionKey) -> bool:
    wanted = session.get(key)
    return wanted is not None and _is_in_memory(services, wanted)


def _is_in_memory(services: Services, wanted: PartitionFetch) -> bool:
    """Whether what may be read lies in the segment that is written to: no disk is waited for."""
    partition = services.partitions.find(wanted.topic, wanted.partition)
    return (
        partition is not None
        and wanted.error_code is _NONE
        and wanted.offset >= partition.log.segments[-1].base_offset
    )


def _written(
    services: Services, context: RequestContext, session_id: int, news: list[PartitionRead]
) -> Sequence[ReplyPart]:
    """The answer, in parts."""
    topics: list[tuple[bytes, list[tuple[int, int, int, int, ReplyPart]]]] = []
    is_plain = True
    for read in news:
        wanted = read.wanted
        if read.error_code is not _NONE or read.diverging is not None:
            is_plain = False
            break
        if not topics or topics[-1][0] != wanted.topic_id:
            topics.append((wanted.topic_id, []))
        records = b"" if read.records is None else _small(read.records)
        topics[-1][1].append(
            (
                wanted.partition,
                read.high_watermark,
                read.last_stable_offset,
                read.log_start_offset,
                records,
            )
        )
    if is_plain:
        parts = write_answer(context.correlation_id, session_id, topics, FileRegion)
        if parts is not None:
            return parts
    response = full_response(services, context, news)
    response.session_id = session_id
    out = bytearray(response_header(ApiKey.FETCH, context.api_version)(context.correlation_id))
    regions: list[tuple[int, FileRegion]] = []
    encoder(FetchResponse, context.api_version)(response, out, regions)
    return spliced(out, regions)


def _small(region: FileRegion) -> ReplyPart:
    """The records themselves if they are small. What cannot be read is left to the sender, who
    tells why."""
    if region.size_bytes > READ_BYTES_MAX:
        return region
    try:
        found = region.read()
    except OSError:
        return region
    return found if len(found) == region.size_bytes else region
