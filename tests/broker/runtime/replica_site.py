"""Several brokers' partitions and fetchers in one process; leaders answer over a wire of bytes.

The wire encodes and decodes real requests and answers. A leader is its PartitionRuntime and the few
lines that a fetch handler has; tests hold up, spoil and lose what goes over it.
"""

from __future__ import annotations

import asyncio
import copy
import heapq
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.log.directories import DirectoriesConfig, LogDirectories
from ottla.broker.log.opening import open_directories
from ottla.broker.replica.following import Pauses
from ottla.broker.replica.progress import FollowerFetch
from ottla.broker.runtime.fetcher import FetcherParts
from ottla.broker.runtime.fetcher_wire import Manner, Sender
from ottla.broker.runtime.fetchers import Fetchers
from ottla.broker.runtime.partitions import Partitions
from ottla.broker.runtime.topic_settings import topic_settings
from ottla.broker.runtime.waiting import Waiting
from ottla.broker.runtime.wheel import TimingWheel
from ottla.broker.tasks import Tasks
from ottla.broker.testing.memory_disk import MemoryDisk
from ottla.coordinator.metadata.configs import ConfigSources, topic_config
from ottla.protocol.compile import decode, encode
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch
from tests.broker.runtime.node import CountingRandom, HandClock, quiet
from tests.broker.runtime.shard_site import InlineOffload

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.runtime.partition import Appended, PartitionRuntime
    from ottla.protocol.ports import Disk

TOPIC = "t"
TOPIC_ID = b"id of the topic!"
NODES = (1, 2, 3)
WALL_MS = 1_700_000_000_000
PRODUCE_VERSION = 9


class Seams(NamedTuple):
    """What logs need."""

    clock: HandClock
    random: CountingRandom
    disk: Disk
    offload: Any


class SiteClock(HandClock):
    """Lets fewer turns of the loop pass at each step; nothing here needs more."""

    async def advance(self, delay_ms: float) -> None:
        self.now += delay_ms
        while self._timers and self._timers[0][0] <= self.now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                timer.callback()
                await _turns()
        await _turns()


async def _turns() -> None:
    for _ in range(25):
        await asyncio.sleep(0)


class Replicas:
    """One broker's part: start, kill and start again over the same disk."""

    def __init__(self, node_id: int, site: Site, disk: Disk | None = None) -> None:
        self.node_id = node_id
        self.site = site
        self.disk = disk if disk is not None else MemoryDisk()
        self.broker_epoch = 0
        self.is_running = False
        self.logs: LogDirectories | None = None

    async def start(self) -> None:
        site, self.broker_epoch = self.site, self.broker_epoch + 1
        self.tasks = Tasks()
        self.waiting = Waiting(TimingWheel(site.clock), asyncio.get_running_loop().call_soon)
        self.partitions = Partitions(
            self.node_id,
            lambda _topic: topic_settings(topic_config(site.configs, ConfigSources())),
            self.waiting,
            site.clock,
            30_000,
        )
        parts = FetcherParts(
            Wires(self.node_id, site),
            lambda: Sender(self.node_id, self.broker_epoch),
            site.clock,
            self.tasks,
            site.manner,
            Pauses(20, 100),
        )
        self.fetchers = Fetchers(parts, site.fetcher_count)
        self.partitions.on_following = self.fetchers.on_role
        config = DirectoriesConfig(("/data",), self.node_id, "cluster")
        seams = Seams(site.clock, CountingRandom(), self.disk, InlineOffload())
        self.logs = await open_directories(seams, config, self.partitions.open_as)
        self.partitions.attach(self.logs)
        self.is_running = True

    async def kill(self) -> None:
        """The process is gone; what it has written is there."""
        self.is_running = False
        await self.tasks.stop()
        assert self.tasks.crash_count == 0
        assert self.logs is not None
        for lock in self.logs._locks:
            lock.release()

    async def stop(self) -> None:
        """In good order."""
        self.is_running = False
        self.partitions.close()
        await self.fetchers.stop()
        self.waiting.close()
        await self.tasks.stop()
        assert self.tasks.crash_count == 0
        assert self.logs is not None
        await self.logs.close(self.broker_epoch)

    def partition(self, index: int = 0) -> PartitionRuntime:
        found = self.partitions.find(TOPIC, index)
        assert found is not None
        return found

    def content(self, index: int = 0) -> bytes:
        """All bytes of the partition's log."""
        log = self.partition(index).log
        return b"".join(one.file.pread(one.size_bytes, 0) for one in log.segments if one.size_bytes)

    def produce(self, *values: bytes, index: int = 0, acks: int = 1, **options: Any) -> Appended:
        """Append as a producer's request would, a batch with these values."""
        records = [(WALL_MS, None, value, ()) for value in values]
        batch = bytearray(encode_batch(records, BatchOptions(**options)))
        partition = self.partition(index)
        return partition.write(partition.judge(batch, PRODUCE_VERSION), acks)


class Site:
    """The brokers, the clock and the wires between them."""

    def __init__(self, *, configs: dict[str, str] | None = None, fetcher_count: int = 1) -> None:
        self.clock = SiteClock()
        self.configs = configs or {}
        self.fetcher_count = fetcher_count
        self.manner = Manner()
        self.version = 15
        self.nodes = {node_id: Replicas(node_id, self) for node_id in NODES}
        self.requests: list[tuple[int, int, FetchRequest]] = []
        self.connection_count = 0
        # Called with (from, to, answer) before the answer is delivered; may change or hold it.
        self.on_answer: Callable[[int, int, FetchResponse], Any] | None = None
        self.cut: set[tuple[int, int]] = set()
        # Leaders give sessions (KIP-227), by id: what each has been told, and its next epoch.
        self.gives_sessions = False
        self.sessions: dict[int, tuple[int, dict[int, FetchPartition]]] = {}

    async def start(self, *node_ids: int) -> None:
        for node_id in node_ids or NODES:
            await self.nodes[node_id].start()

    async def stop(self) -> None:
        for node in self.nodes.values():
            if node.is_running:
                await node.stop()

    async def lead(
        self,
        leader: int,
        leader_epoch: int = 0,
        *,
        isr: tuple[int, ...] = NODES,
        to: tuple[int, ...] | None = None,
        indexes: tuple[int, ...] = (0,),
        partition_epoch: int | None = None,
    ) -> None:
        """The controller says who leads, to those who live (or to a few of them)."""
        states = [
            LeaderAndIsrPartitionState(
                partition_index=index,
                leader=leader,
                leader_epoch=leader_epoch,
                partition_epoch=leader_epoch if partition_epoch is None else partition_epoch,
                isr=list(isr),
                replicas=list(NODES),
                is_new=leader_epoch == 0,
            )
            for index in indexes
        ]
        topic = LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=states)
        # The leader first, as a rule; others find it in office then.
        for node_id in sorted(to or NODES, key=lambda one: one != leader):
            node = self.nodes[node_id]
            if node.is_running:
                request = LeaderAndIsrRequest(controller_id=1, topic_states=[topic])
                answer = await node.partitions.apply_leader_and_isr(request)
                errors = [part.error_code for part in answer.topics[0].partition_errors]
                assert errors == [ErrorCode.NONE] * len(indexes)

    async def drop(self, node_id: int, leader_epoch: int, *, delete: bool = False) -> None:
        """The controller takes partition 0 away from a broker."""
        state = StopReplicaPartitionState(
            partition_index=0, leader_epoch=leader_epoch, delete_partition=delete
        )
        topic = StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])
        await self.nodes[node_id].partitions.apply_stop_replica(
            StopReplicaRequest(topic_states=[topic])
        )

    def enter_session(self, request: FetchRequest) -> tuple[int, ErrorCode]:
        """Complete an incremental request by what was said before; the session's id, and error."""
        if not self.gives_sessions:
            return 0, ErrorCode.NONE
        asked = {part.partition: part for topic in request.topics for part in topic.partitions}
        if request.session_epoch == 0:
            self.sessions.pop(request.session_id, None)
            session_id = len(self.requests)
            self.sessions[session_id] = 1, asked
            return session_id, ErrorCode.NONE
        known = self.sessions.get(request.session_id)
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
        self.sessions[request.session_id] = epoch + 1, told
        request.topics = [FetchTopic(topic_id=TOPIC_ID, partitions=list(told.values()))]
        return request.session_id, ErrorCode.NONE

    async def settle(self, ms: float = 2_000.0) -> None:
        """Let everything happen that needs no event from outside."""
        for _ in range(max(1, int(ms / 10))):
            await self.clock.advance(10)
        await quiet()

    def contents(self) -> set[bytes]:
        """The different contents of the logs of those who run; one is what it should be."""
        return self.contents_of(*(one for one, node in self.nodes.items() if node.is_running))

    def contents_of(self, *node_ids: int) -> set[bytes]:
        """The different contents of their logs."""
        return {self.nodes[node_id].content() for node_id in node_ids}


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
        _api: Any,
        request: FetchRequest,
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
    ) -> asyncio.Future[FetchResponse]:
        assert version is not None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[FetchResponse] = loop.create_future()
        if self.closed:
            future.set_exception(ConnectionResetError())
            return future
        arrived = decode(FetchRequest, version, encode(request, version))
        self.site.requests.append((self.source, self.target, copy.copy(arrived)))
        self._waiting.append(future)
        task = loop.create_task(self._serve(arrived, version, future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return future

    async def _serve(
        self, request: FetchRequest, version: int, future: asyncio.Future[FetchResponse]
    ) -> None:
        site = self.site
        deadline_ms = site.clock.now_ms() + request.max_wait_ms
        is_first = True
        session_id, error = site.enter_session(request)
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
            future.set_result(decode(FetchResponse, version, memoryview(encode(answer, version))))

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
    """What a leader says about one partition."""
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


def values(count: int, start: int = 0) -> list[bytes]:
    """Values that are told apart."""
    return [b"value %d" % number for number in itertools.islice(itertools.count(start), count)]


def where(index: int = 0) -> TopicPartition:
    return TopicPartition(TOPIC, index)
