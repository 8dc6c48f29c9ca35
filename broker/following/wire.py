"""Encodes a follower's fetch requests and decodes the answers of its leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.following.steps import LeaderAnswer
from ottla.broker.replica.epochs import EpochEnd
from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decode
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import ZERO_UUID, TopicPartition
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.follower_fetch import (
    VERSIONS,
    PartitionAnswer,
    read_answer,
    write_request,
)
from ottla.wire.api import declare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ottla.broker.following.fetcher_state import Followed
    from ottla.broker.following.session import Delta
    from ottla.broker.following.steps import FetchPosition
    from ottla.protocol.ids import Uuid
    from ottla.protocol.schema import Records

# In older versions a leader cannot tell where two logs diverge (KIP-595).
FIRST_WITH_DIVERGENCE = 12
FETCH = declare(ApiKey.FETCH, FetchRequest, FetchResponse, FIRST_WITH_DIVERGENCE, 17)
FIRST_BY_ID = 13
FIRST_WITH_REPLICA_STATE = 15


# On idle partitions a follower waits longer, up to this multiple of the setting.
IDLE_WAITS_MAX = 8


class FetchSettings(NamedTuple):
    """How a follower fetches: Kafka's ``replica.fetch.*`` settings.

    ``idle_wait_max_ms``: how long the leader may hold a request when no records arrive; it answers
    at once when some do."""

    max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    min_bytes: int = 1
    wait_max_ms: int = 500
    idle_wait_max_ms: int = 500

    @property
    def longest_wait_ms(self) -> int:
        """How long a leader may hold a request, in milliseconds."""
        return self.wait_ms(IDLE_WAITS_MAX)

    def wait_ms(self, idle_count: int) -> int:
        """Return the wait after that many consecutive empty answers; it grows with their number."""
        assert idle_count >= 0
        longer_ms = self.wait_max_ms * min(IDLE_WAITS_MAX, 1 << min(idle_count, 10))
        return max(self.wait_max_ms, min(longer_ms, self.idle_wait_max_ms))


class FollowerIdentity(NamedTuple):
    """The fetching broker."""

    node_id: int
    broker_epoch: int


def version_for(offered: int, asked: Iterable[tuple[Followed, FetchPosition]]) -> int:
    """Return the newest version that can name all these partitions."""
    assert offered >= FIRST_WITH_DIVERGENCE, "its leader could not say where two logs part"
    if offered >= FIRST_BY_ID and any(one.topic_id == ZERO_UUID for one, _ in asked):
        return FIRST_BY_ID - 1
    return offered


def build_request(
    delta: Delta, sender: FollowerIdentity, manner: FetchSettings, version: int
) -> FetchRequest:
    """Build one request; adjacent partitions of a topic share its entry."""
    request = FetchRequest(
        max_wait_ms=manner.wait_max_ms,
        min_bytes=manner.min_bytes,
        max_bytes=manner.response_max_bytes,
        session_id=delta.session_id,
        session_epoch=delta.session_epoch,
        topics=list(_topics(delta.asked, manner.max_bytes)),
        forgotten_topics_data=list(_forgotten(delta.forgotten)),
    )
    if version >= FIRST_WITH_REPLICA_STATE:
        request.replica_state = ReplicaState(sender.node_id, sender.broker_epoch)
    else:
        request.replica_id = sender.node_id
    return request


def _topics(
    asked: Iterable[tuple[Followed, FetchPosition]], max_bytes: int
) -> Iterator[FetchTopic]:
    topic: FetchTopic | None = None
    for one, ask in asked:
        name, index = one.partition
        if topic is None or topic.topic != name or topic.topic_id != one.topic_id:
            if topic is not None:
                yield topic
            topic = FetchTopic(name, one.topic_id)
        topic.partitions.append(
            FetchPartition(
                index,
                ask.leader_epoch,
                ask.fetch_offset,
                ask.last_fetched_epoch,
                ask.log_start_offset,
                max_bytes,
            )
        )
    if topic is not None:
        yield topic


def _forgotten(forgotten: Iterable[tuple[TopicPartition, Uuid]]) -> Iterator[ForgottenTopic]:
    by_topic: dict[tuple[str, Uuid], list[int]] = {}
    for (name, index), topic_id in forgotten:
        by_topic.setdefault((name, topic_id), []).append(index)
    for (name, topic_id), indexes in by_topic.items():
        yield ForgottenTopic(name, topic_id, indexes)


class PlainAnswer(NamedTuple):
    """An answer without errors, as it usually is."""

    session_id: int
    parts: list[PartitionAnswer]


LeaderResponse = FetchResponse | PlainAnswer


def encoded_request(
    delta: Delta, sender: FollowerIdentity, manner: FetchSettings, wait_ms: int, version: int
) -> bytes | None:
    """Return the request that ``build_request`` describes, if it is one of the usual ones. HOT."""
    if version not in VERSIONS or not delta.continues or delta.forgotten:
        return None
    assert delta.session_id, "a request that continues a session names it"
    limits = wait_ms, manner.min_bytes, manner.response_max_bytes
    most = manner.max_bytes
    asked = [
        (
            one.topic_id,
            one.partition[1],
            ask.leader_epoch,
            ask.fetch_offset,
            ask.last_fetched_epoch,
            ask.log_start_offset,
            most,
        )
        for one, ask in delta.asked
    ]
    return write_request(limits, (delta.session_id, delta.session_epoch), sender, asked)


def decoded_answer(version: int, frame: memoryview) -> LeaderResponse:
    """Decode the answer to an ``encoded_request``. Raises RemoteProtocolError. HOT."""
    answer = read_answer(frame)
    if answer is None:
        return decode(FetchResponse, version, frame)
    return PlainAnswer(*answer)


def parts_of(
    response: LeaderResponse, names: Mapping[Uuid, str]
) -> Iterator[tuple[TopicPartition, LeaderAnswer, Records | None]]:
    """Return each partition with its part of the answer and the records; topics that were not
    requested are skipped."""
    if isinstance(response, PlainAnswer):
        for topic_id, index, high_watermark, log_start_offset, records in response.parts:
            name = names.get(topic_id)
            if name is not None:
                told = LeaderAnswer(
                    ErrorCode.NONE,
                    high_watermark,
                    log_start_offset,
                    has_records=len(records) > 0,
                )
                yield TopicPartition(name, index), told, records
        return
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id)
        if name is not None:
            for part in topic.partitions:
                yield TopicPartition(name, part.partition_index), told_by(part), part.records


def told_by(part: PartitionData) -> LeaderAnswer:
    """Return the answer about one partition in the state machine's form."""
    end = part.diverging_epoch
    diverging = None
    if part.error_code == ErrorCode.NONE and (end.epoch >= 0 or end.end_offset >= 0):
        diverging = EpochEnd(end.epoch, end.end_offset)
    return LeaderAnswer(
        error_code(part.error_code),
        part.high_watermark,
        part.log_start_offset,
        diverging,
        has_records=bool(part.records),
    )
