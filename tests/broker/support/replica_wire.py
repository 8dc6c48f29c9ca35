"""The wire of a site: requests and answers as bytes, and what a leader's fetch handler does."""

from __future__ import annotations

import asyncio
import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.replica.progress import FollowerFetch
from ottla.protocol.compile import decode, encode
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.broker.support.replica_site import Replicas, Site

TOPIC = "t"
TOPIC_ID = b"id of the topic!"


class Sessions:
    """What leaders have been told in each session, and its next epoch."""

    def __init__(self) -> None:
        self.told: dict[int, tuple[int, dict[int, FetchPartition]]] = {}

    def enter(self, request: FetchRequest, number: int) -> tuple[int, ErrorCode]:
        """Complete an incremental request by what was said before; the session's id, and error."""
        asked = {part.partition: part for topic in request.topics for part in topic.partitions}
        if request.session_epoch == 0:
            self.told.pop(request.session_id, None)
            session_id = number
            self.told[session_id] = 1, asked
            return session_id, ErrorCode.NONE
        known = self.told.get(request.session_id)
        if known is None:
            request.topics = []
            return 0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        epoch, told = known
        if epoch != request.session_epoch:
            request.topics = []
            return 0, ErrorCode.INVALID_FETCH_SESSION_EPOCH
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                del told[index]
        told.update(asked)
        self.told[request.session_id] = epoch + 1, told
        request.topics = [FetchTopic(topic_id=TOPIC_ID, partitions=list(told.values()))]
        return request.session_id, ErrorCode.NONE


class Wires:
    """``Peers`` of one broker."""

    def __init__(self, node_id: int, site: Site) -> None:
        self._node_id = node_id
        self._site = site

    async def connect(self, node_id: int, *, purpose: str) -> Wire:
        await asyncio.sleep(0)
        site = self._site
        if not site.nodes[node_id].is_running or (self._node_id, node_id) in site.cut:
            raise ConnectionRefusedError(node_id)
        site.connection_count += 1
        return Wire(self._node_id, node_id, site)


class Wire:
    """A connection: requests and answers go over as bytes."""

    def __init__(self, source: int, target: int, site: Site) -> None:
        self.source, self.target = source, target
        self.site = site
        self.node = site.nodes[target]
        self.epoch = self.node.broker_epoch
        self.closed = False
        self._waiting: list[asyncio.Future[FetchResponse]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def version_of(self, _api: Any) -> int:
        return self.site.version

    def send(
        self,
        api: Any,
        request: FetchRequest,
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
    ) -> asyncio.Future[FetchResponse]:
        assert version is not None
        read = partial(decode, FetchResponse)
        return self.ask(api, version, encode(request, version), timeout_ms, read)

    def ask(
        self,
        _api: Any,
        version: int,
        request: Any,
        _timeout_ms: float | None,
        read: Callable[[int, memoryview], Any],
    ) -> asyncio.Future[Any]:
        """The request is encoded already."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[FetchResponse] = loop.create_future()
        if self.closed:
            future.set_exception(ConnectionResetError())
            return future
        arrived = decode(FetchRequest, version, request)
        self.site.requests.append((self.source, self.target, copy.copy(arrived)))
        self._waiting.append(future)
        task = loop.create_task(self._serve(arrived, version, future, read))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return future

    async def _serve(
        self,
        request: FetchRequest,
        version: int,
        future: asyncio.Future[Any],
        read: Callable[[int, memoryview], Any],
    ) -> None:
        site = self.site
        deadline_ms = site.clock.now_ms() + request.max_wait_ms
        is_first = True
        session_id, error = 0, ErrorCode.NONE
        if site.gives_sessions:
            session_id, error = site.sessions.enter(request, len(site.requests))
        if error != ErrorCode.NONE:
            deadline_ms = 0.0
        while True:
            gone = not self.node.is_running or self.node.broker_epoch != self.epoch
            if self.closed or gone or (self.source, self.target) in site.cut:
                self.close()
                return
            answer, has_news = serve(self.node, self.source, request, counts=is_first)
            is_first = False
            if has_news or site.clock.now_ms() >= deadline_ms:
                break
            await site.clock.sleep(10)
        answer.session_id, answer.error_code = session_id, error
        if site.on_answer is not None:
            answer = await site.on_answer(self.source, self.target, answer)
        if not future.done() and not self.closed:
            future.set_result(read(version, memoryview(encode(answer, version))))

    def close(self, reason: str = "") -> None:
        self.closed = True
        for future in self._waiting:
            if not future.done():
                future.set_exception(ConnectionResetError())
        self._waiting.clear()


def serve(
    node: Replicas, source: int, request: FetchRequest, *, counts: bool = True
) -> tuple[FetchResponse, bool]:
    """A leader's answer, and whether there is anything in it."""
    response = FetchResponse()
    has_news = False
    sender = request.replica_state
    replica_id = sender.replica_id if sender.replica_id >= 0 else request.replica_id
    assert replica_id == source
    left_bytes = request.max_bytes
    for topic in request.topics:
        assert topic.topic_id in (TOPIC_ID, b"\0" * 16)
        answers = FetchableTopicResponse(topic=TOPIC, topic_id=topic.topic_id)
        for asked in topic.partitions:
            part = serve_partition(node, source, sender.replica_epoch, asked, counts=counts)
            size_bytes = len(part.records or b"")
            if size_bytes and left_bytes <= 0:
                part.records, size_bytes = b"", 0
            left_bytes -= size_bytes
            has_news = has_news or bool(size_bytes) or part.error_code != ErrorCode.NONE
            has_news = has_news or part.diverging_epoch.end_offset >= 0
            answers.partitions.append(part)
        response.responses.append(answers)
    return response, has_news


def serve_partition(
    node: Replicas, source: int, broker_epoch: int, asked: FetchPartition, *, counts: bool
) -> PartitionData:
    """Returns a leader's answer for one partition."""
    part = PartitionData(partition_index=asked.partition, records=b"")
    partition = node.partitions.find(TOPIC, asked.partition)
    if partition is None:
        part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return part
    replica, log = partition.replica, partition.log
    fetch = FollowerFetch(
        source,
        max(broker_epoch, 0),
        asked.fetch_offset,
        asked.last_fetched_epoch,
        asked.current_leader_epoch,
        asked.log_start_offset,
    )
    if counts or not partition.is_open:
        verdict = partition.on_follower_fetch(fetch)
    else:
        verdict = replica.judge_fetch(
            fetch.fetch_offset, fetch.current_leader_epoch, fetch.last_fetched_epoch
        )
    part.error_code = verdict.error
    part.high_watermark = replica.high_watermark
    part.log_start_offset = log.log_start_offset
    if verdict.diverging is not None:
        part.diverging_epoch = EpochEndOffset(*verdict.diverging)
    if verdict.is_good:
        try:
            found = log.read(
                asked.fetch_offset, asked.partition_max_bytes, log.log_end_offset, True
            )
        except KafkaError as error:
            part.error_code = error.code
        else:
            part.records = b"" if found.region is None else found.region.read()
    return part
