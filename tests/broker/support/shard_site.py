"""One offsets partition over a real log, a shard on it, and a machine that only counts.

The clock moves by hand. The machine keeps a dict: ``Put`` appends and answers once committed,
``Get`` reads what is committed, ``Wait`` is answered by nothing but an unload.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.coordinating.groups import GroupCoordinator
from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC
from ottla.broker.coordinating.shards import ShardParts
from ottla.broker.coordinating.shards_loading import Loader
from ottla.broker.coordinating.stalls import StallClock
from ottla.broker.engine.purgatory import Purgatory
from ottla.broker.engine.tasks import Tasks
from ottla.broker.engine.timing_wheel import TimingWheel
from ottla.broker.log.directories.directories import DirectoriesConfig, LogDirectories
from ottla.broker.log.directories.opening import open_directories
from ottla.broker.metadata.metadata import MetadataCache
from ottla.broker.metadata.topic_settings import topic_settings
from ottla.broker.partitions.lease import endless_lease
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.produces import Flushes
from ottla.broker.partitions.read_barriers import ReadBarriers
from ottla.broker.replica.progress import FollowerLag
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.configs.configs import ConfigSources, topic_config
from ottla.coordinator.effects import (
    NOBODY,
    Append,
    Effects,
    LogRecord,
    Moment,
    RequestOrigin,
    SendResponse,
    Ticket,
    Token,
    Writer,
)
from ottla.coordinator.metadata.changes import TopicChanged
from ottla.coordinator.metadata.image import PartitionState, TopicImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.broker.support.node import CountingRandom, HandClock, quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ottla.broker.coordinating.shards import Shard, ShardState
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.coordinator.group.common.timeline import Event
    from ottla.coordinator.metadata.changes import Change
    from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
    from ottla.protocol.ports import Disk

NODE = 1
OTHER = 2
TOPIC_ID = b"offsets topic id"
COMMIT_TIMEOUT_MS = 5_000
# Reading a record with this key raises.
POISON = b"poison"
CALLER = RequestOrigin("client", "/127.0.0.1", 1)


class Put(NamedTuple):
    """Store a value under a key, the record as often as ``times`` says."""

    key: bytes
    value: bytes
    writer: Writer = NOBODY
    times: int = 1


class Get(NamedTuple):
    """Read the value."""

    key: bytes


class Wait(NamedTuple):
    """Be answered never."""


class Session(NamedTuple):
    """Stay alive until that long from now."""

    timeout_ms: float


class Fail(NamedTuple):
    """Run into a bug."""


class CountingMachine:
    """What ``Shard`` asks of a machine, in a few lines."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}
        self.replayed: list[tuple[LogRecord, Writer]] = []
        self.markers: list[tuple[int, int, bool]] = []
        self.calls: list[str] = []
        self.must_reload = False
        self.reloads_on_failure = False
        self.deadline_ms: float | None = None
        self.expired_ms: float | None = None
        self._open: dict[Token, tuple[Ticket, LogRecord]] = {}
        self._waiting: list[Ticket] = []
        self._token = 0
        self.limit: Callable[[], int] | None = None

    def limit_batches(self, limit: Callable[[], int]) -> None:
        self.limit = limit

    def replay(self, record: LogRecord, writer: Writer, _moment: Moment) -> None:
        assert record.key != POISON, "a bug"
        self.replayed.append((record, writer))
        self.values[record.key] = record.value

    def replay_marker(
        self, producer_id: int, producer_epoch: int, committed: bool, _moment: Moment
    ) -> None:
        self.markers.append((producer_id, producer_epoch, committed))

    def on_loaded(self, _moment: Moment) -> Effects:
        self.calls.append("loaded")
        return []

    def handle(
        self, request: Any, _caller: RequestOrigin, ticket: Ticket, moment: Moment
    ) -> Effects:
        match request:
            case Put():
                self._token += 1
                record = LogRecord(request.key, request.value)
                self._open[self._token] = (ticket, record)
                return [Append(self._token, (record,) * request.times, request.writer)]
            case Get():
                return [SendResponse(ticket, self.values.get(request.key, "nothing"))]
            case Session():
                self.deadline_ms = moment.now_ms + request.timeout_ms
                return [SendResponse(ticket, "alive")]
            case Fail():
                raise AssertionError("a bug")
        self._waiting.append(ticket)
        return []

    def committed(self, token: Token, _moment: Moment) -> Effects:
        ticket, record = self._open.pop(token)
        self.values[record.key] = record.value
        return [SendResponse(ticket, "stored")] if ticket else []

    def failed(self, token: Token, error: ErrorCode, _moment: Moment) -> Effects:
        ticket, _record = self._open.pop(token)
        self.must_reload = self.reloads_on_failure
        return [SendResponse(ticket, error)] if ticket else []

    def overdue(self, token: Token, _moment: Moment) -> Effects:
        ticket, record = self._open[token]
        self._open[token] = (0, record)
        return [SendResponse(ticket, "overdue")]

    def next_deadline_ms(self) -> float | None:
        return self.deadline_ms

    def on_deadline(self, moment: Moment) -> Effects:
        self.expired_ms, self.deadline_ms = moment.now_ms, None
        self.calls.append("expired")
        return []

    def on_topics_changed(self, _moment: Moment) -> Effects:
        self.calls.append("topics")
        return []

    def unload(self, error: ErrorCode) -> Effects:
        self.calls.append("unload")
        unwritten = [ticket for ticket, _record in self._open.values() if ticket]
        self._open.clear()
        return [SendResponse(ticket, error) for ticket in (*self._waiting, *unwritten)]

    def listing(self, _request: ListGroupsRequest) -> Iterator[ListedGroup | None]:
        return iter(())

    def timeline(self, _group_id: str) -> list[Event]:
        return []


class InlineOffload:
    """Runs everything at once."""

    async def run(self, function: Callable[..., Any], *arguments: object) -> Any:
        return function(*arguments)


class Seams(NamedTuple):
    """The part of ``ports.Ports`` that logs need."""

    clock: HandClock
    random: CountingRandom
    disk: Disk
    offload: Any


class ShardSite:
    """Partition 0 is the only one, so every group lives there."""

    def __init__(self, disk: Disk | None = None, configs: Mapping[str, str] | None = None) -> None:
        self.disk = disk if disk is not None else MemoryDisk()
        self.clock = HandClock()
        self.tasks = Tasks()
        self.configs = {"cleanup.policy": "compact", **(configs or {})}
        wheel = TimingWheel(self.clock)
        self.waiting = Purgatory(wheel, _soon)
        self.stalls = StallClock(self.clock)
        self.metadata = MetadataCache(self.clock)
        self.metadata.begin("cluster", 0)
        offload = InlineOffload()
        self.parts = ShardParts(
            self.clock,
            self.stalls,
            wheel,
            self.waiting,
            self.tasks,
            Flushes(self.tasks),
            Loader(self.clock, offload, self.waiting),
            ReadBarriers(self.waiting, self.clock),
            COMMIT_TIMEOUT_MS,
        )
        self.lease = endless_lease()
        self.machines: list[CountingMachine] = []
        self.groups = GroupCoordinator(self.metadata, self.make_machine, self.parts)
        self.groups.start(())
        self.partitions = Partitions(
            NODE,
            lambda _topic: topic_settings(topic_config(self.configs, ConfigSources())),
            self.waiting,
            self.clock,
            FollowerLag(30_000),
            self.lease,
        )
        self.partitions.on_role = self.groups.on_role
        self._seams = Seams(self.clock, CountingRandom(), self.disk, offload)
        self._logs: LogDirectories | None = None

    def make_machine(self) -> CountingMachine:
        self.machines.append(CountingMachine())
        return self.machines[-1]

    async def open(self) -> None:
        """Load the directories; nothing is led yet."""
        config = DirectoriesConfig(("/data",), NODE, "cluster")
        self._logs = await open_directories(self._seams, config, self.partitions.open_as)
        self.partitions.attach(self._logs)
        state = PartitionState((NODE,), NODE, 0, (NODE,))
        self.metadata.take([TopicChanged(TopicImage(OFFSETS_TOPIC, TOPIC_ID, {0: state}))])

    async def lead(
        self, leader_epoch: int = 0, isr: tuple[int, ...] = (NODE,), partition_epoch: int = 0
    ) -> None:
        """The controller says so; returns when the partition is open, not when it is loaded."""
        await self._say(NODE, leader_epoch, isr, partition_epoch)

    async def follow(self, leader_epoch: int) -> None:
        await self._say(OTHER, leader_epoch, (OTHER,), 0)

    async def _say(
        self, leader: int, leader_epoch: int, isr: tuple[int, ...], partition_epoch: int
    ) -> None:
        state = LeaderAndIsrPartitionState(
            partition_index=0,
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            isr=list(isr),
            replicas=[NODE, OTHER],
            is_new=True,
        )
        topic = LeaderAndIsrTopicState(
            topic_name=OFFSETS_TOPIC, topic_id=TOPIC_ID, partition_states=[state]
        )
        request = LeaderAndIsrRequest(controller_id=NODE, topic_states=[topic])
        response = await self.partitions.apply_leader_and_isr(request)
        assert response.topics[0].partition_errors[0].error_code == ErrorCode.NONE

    async def loaded(self) -> None:
        """Lead and load."""
        await self.open()
        await self.lead()
        await quiet()

    def other_topic(self) -> list[Change]:
        """The change of metadata that the creation of another topic causes."""
        state = PartitionState((NODE,), NODE, 0, (NODE,))
        return [TopicChanged(TopicImage("t", b"id of the topic t", {0: state}))]

    @property
    def partition(self) -> PartitionRuntime:
        found = self.partitions.find(OFFSETS_TOPIC, 0)
        assert found is not None
        return found

    @property
    def shard(self) -> Shard[Any]:
        (shard,) = self.groups.shards
        return shard

    @property
    def state(self) -> ShardState:
        """The state of the shard."""
        return self.shard.state

    @property
    def machine(self) -> CountingMachine:
        """The one that was made last."""
        return self.machines[-1]

    def ask(self, request: Any) -> list[Any]:
        """Ask about a group; the list holds the answer as soon as there is one."""
        answers: list[Any] = []
        self.groups.handle("g", request, CALLER, _refused).then(answers.append)
        return answers

    async def stop(self) -> None:
        """End the tasks and close the logs as a clean stop does."""
        self.groups.close()
        self.partitions.close()
        self.waiting.close()
        await self.tasks.stop()
        assert self._logs is not None
        await self._logs.close(1)


def _refused(error: ErrorCode) -> Any:
    return error


def _soon(callback: Callable[[], object]) -> object:
    return asyncio.get_running_loop().call_soon(callback)
