"""One controllership: from a won election until resignation, one event after the other.

Owns the machine, the queue of events and the senders, and is thrown away as a whole when it ends
(C-04). Watches only put marks on the queue; what is marked is read again when its turn comes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.runtime.lost_replicas import LostReplicas
from ottla.broker.runtime.senders import Senders
from ottla.broker.runtime.world import WorldReader
from ottla.coordinator.controller.events import (
    BrokersRead,
    ConfigRead,
    DeleteTopics,
    DirectoryFailed,
    Event,
    ReplicasAwaited,
    ReplicasBack,
    ReplicasFailed,
    RolesRefused,
    StatesRead,
    TopicsRead,
)
from ottla.coordinator.controller.machine import Controller
from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import (
    Check,
    ConnectionLoss,
    GroupFailed,
    SessionExpired,
    StoreError,
)
from ottla.protocol.errors import ErrorCode, Fenced, KafkaError, error_code
from ottla.protocol.ids import TopicPartition, is_usable_uuid
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from ottla.broker.runtime.control import ControlChannel, ControlResponse
    from ottla.broker.tasks import Tasks
    from ottla.coordinator.controller.events import (
        AnyControlRequest,
        ControllerDecision,
        Identity,
        Write,
    )
    from ottla.coordinator.controller.specs import ControllerSettings, TopicResult
    from ottla.coordinator.controller.topics import ConfigCheck
    from ottla.coordinator.store.store import Session, WatchEvent
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Clock, Random

logger = logging.getLogger("ottla.controller")

# How often a decision is made anew because somebody else had changed the same znodes.
REFUSALS_MAX = 20
REFUSED_ROLE_RETRY_MS = 10_000
_TOPIC_CONFIGS = f"{paths.CONFIG}/topics/"

Results = tuple["TopicResult", ...]


class ControllerParts(NamedTuple):
    """What every controllership of this broker is made with."""

    settings: ControllerSettings
    check_configs: ConfigCheck
    channel: ControlChannel
    clock: Clock
    random: Random
    tasks: Tasks


class _Command(NamedTuple):
    """Somebody waits for the reply to an event that is put together when its turn comes."""

    prepare: Callable[[], Awaitable[Event]]
    reply: asyncio.Future[Results]


class Controllership:
    """Made after an election; ``run`` ends by an exception only."""

    def __init__(
        self,
        session: Session,
        cluster_id: str,
        identity: Identity,
        epoch_version: int,
        parts: ControllerParts,
    ) -> None:
        self.identity = identity
        self._session = session
        self._cluster_id = cluster_id
        self._parts = parts
        self._guard = Check(paths.CONTROLLER_EPOCH, epoch_version)
        self._reader = WorldReader(
            session,
            self._on_watch,
            self._guard,
            self._draw_id,
            parts.settings.delete_topic_enable,
        )
        self._senders = Senders(parts.channel, parts.clock, parts.tasks, self._on_answer)
        self._current: Controller | None = None
        self._queue: asyncio.Queue[str | Event | _Command] = asyncio.Queue()
        self._marks: set[str] = set()
        self._commands: set[asyncio.Future[Results]] = set()
        self._lost = LostReplicas(
            parts.clock, lambda node_id: self._queue.put_nowait(ReplicasAwaited(node_id))
        )
        self._is_over = False

    # ---- from outside ----

    async def run(self) -> None:
        """Lead until it is over. Raises Fenced or StoreError, or is cancelled."""
        try:
            await self._check_place()
            await self._load()
            self._mark(paths.DELETE_TOPICS)
            self._mark(paths.LOG_DIR_EVENTS)
            while True:
                item = await self._queue.get()
                if isinstance(item, str):
                    self._marks.discard(item)
                    await self._read_again(item)
                elif isinstance(item, _Command):
                    await self._obey(item)
                else:
                    if isinstance(item, ReplicasAwaited):
                        lost = self.machine.offline_on(item.node_id)
                        self._lost.asked(item.node_id, lost)
                    await self._perform(item)
        finally:
            self._resign()

    def command(self, prepare: Callable[[], Awaitable[Event]]) -> asyncio.Future[Results]:
        """Queue an event that is answered; cancelling the future does not undo it (P-04)."""
        reply: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
        if self._is_over:
            reply.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))
        else:
            self._commands.add(reply)
            self._queue.put_nowait(_Command(prepare, reply))
        return reply

    @property
    def machine(self) -> Controller:
        """The one that decides now; another after every refusal of the store."""
        assert self._current is not None, "the world is read first"
        return self._current

    async def prepare_deletion(self, topics: Sequence[tuple[str, Uuid]]) -> Event:
        """Read what deleting these topics comes to."""
        deletions = [await self._reader.deletion_of(name, topic_id) for name, topic_id in topics]
        return DeleteTopics(tuple(deletions))

    def topic_configs_changed(self, names: Iterable[str]) -> None:
        """This broker has heard of other settings of these topics."""
        for name in names:
            self._mark(paths.config("topics", name))

    # ---- reading ----

    async def _load(self) -> None:
        """Read the world, settle it, tell everybody; also when the store refused a decision."""
        for _attempt in range(REFUSALS_MAX):
            world = await self._reader.read(self._cluster_id, self.identity)
            machine = self._current = Controller(
                self.identity, self._parts.settings, world, self._parts.check_configs
            )
            if await self._carry_out(machine, machine.start()):
                return
        raise Fenced("the store refuses to be settled")

    def _on_watch(self, event: WatchEvent) -> None:
        if not self._is_over:
            self._mark(event.path)

    def _mark(self, path: str) -> None:
        """Have something read again, once, however often it is marked meanwhile."""
        if path not in self._marks:
            self._marks.add(path)
            self._queue.put_nowait(path)

    async def _read_again(self, path: str) -> None:
        image = self.machine.image
        if path == paths.CONTROLLER:
            await self._check_place()
        elif path == paths.TOPICS:
            await self._perform(await self._reader.topics())
        elif path.startswith(f"{paths.TOPICS}/"):
            name = path.removeprefix(f"{paths.TOPICS}/")
            await self._perform(await self._reader.read_topics(image.topics, [name]))
        elif path == paths.DELETE_TOPICS:
            await self._delete_marked()
        elif path == paths.ISR_CHANGES:
            changed = await self._reader.isr_changes()
            if changed:
                await self._perform(StatesRead(await self._reader.states(changed, image)))
        elif path == paths.LOG_DIR_EVENTS:
            for node_id in await self._reader.directory_failures():
                await self._perform(DirectoryFailed(node_id))
        elif path.startswith(_TOPIC_CONFIGS):
            name = paths.decode_entity(path.removeprefix(_TOPIC_CONFIGS))
            values = await self._reader.topic_config(name)
            await self._perform(ConfigRead(Entity("topics", name), values))
        elif path.startswith(paths.BROKER_IDS):
            await self._perform(BrokersRead(await self._reader.brokers()))

    async def _check_place(self) -> None:
        """Somebody touched /controller: by hand, to force an election, or ZooKeeper at expiry."""
        found = await self._session.exists(paths.CONTROLLER, self._on_watch)
        if found is None or found.ephemeral_owner != self._session.session_id:
            raise Fenced("/controller is not ours any more")

    async def _delete_marked(self) -> None:
        names = await self._reader.deletions()
        if names and self._parts.settings.delete_topic_enable:
            deletions = [
                await self._reader.deletion_of(name, self._topic_id(name)) for name in names
            ]
            await self._perform(DeleteTopics(tuple(deletions)))

    def _topic_id(self, name: str) -> Uuid:
        topic = self.machine.image.topics.get(name)
        return bytes(16) if topic is None else topic.topic_id

    # ---- deciding and carrying out ----

    async def _obey(self, command: _Command) -> None:
        self._commands.discard(command.reply)
        try:
            results = await self._perform(await command.prepare())
        except (StoreError, Fenced, asyncio.CancelledError):
            # Part of it may have been done: the caller must not believe either.
            _fail(command.reply, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the outcome is unknown"))
            raise
        else:
            if not command.reply.done():
                command.reply.set_result(results)

    async def _perform(self, event: Event) -> Results:
        for _attempt in range(REFUSALS_MAX):
            machine = self.machine
            decision = machine.handle(event, self._parts.clock.now_ms())
            if await self._carry_out(machine, decision):
                return decision.reply or ()
            # Somebody else changed what was decided upon: see what it is like now (ZKT-26).
            await self._load()
            if isinstance(event, BrokersRead | TopicsRead | StatesRead | ConfigRead):
                # It tells of an older world than the one that was just read, and settled (C-07).
                return ()
        raise Fenced("the store keeps refusing a decision")

    async def _carry_out(self, machine: Controller, decision: ControllerDecision) -> bool:
        """Whether all writes were done; the requests leave only then."""
        for write in decision.records:
            if not await self._write(write):
                return False
            machine.replay(write)
        self._senders.keep_only(machine.image.brokers)
        self._senders.send(decision.messages)
        if decision.records or decision.messages:
            logger.debug("controller epoch %d: %s", self.identity.epoch, decision.reason)
        return True

    async def _write(self, write: Write) -> bool:
        if not write.operations:
            return True
        try:
            await self._session.multi([self._guard, *write.operations])
        except GroupFailed as failed:
            if failed.index == 0:
                raise Fenced("another controller was elected") from failed
            logger.info("the store refused a decision: %s", failed)
            return False
        except (ConnectionLoss, SessionExpired) as error:
            raise Fenced(f"a write with unknown outcome: {error}") from error
        return True

    def _on_answer(
        self, node_id: int, request: AnyControlRequest, response: ControlResponse
    ) -> None:
        if error_code(response.error_code) is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._mark(paths.CONTROLLER)
        if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
            served, failed, refused = _outcome(node_id, request, response)
            back = self._lost.take_back(node_id, served)
            if back:
                self._queue.put_nowait(ReplicasBack(node_id, back))
            if failed:
                self._queue.put_nowait(ReplicasFailed(node_id, failed))
                self._lost.failed(node_id)
            if refused:
                again_ms = self._parts.clock.now_ms() + REFUSED_ROLE_RETRY_MS
                event = RolesRefused(refused)
                self._parts.clock.call_at(again_ms, lambda: self._queue.put_nowait(event))

    def _resign(self) -> None:
        self._is_over = True
        self._senders.stop()
        self._lost.stop()
        for reply in self._commands:
            _fail(reply, KafkaError(ErrorCode.NOT_CONTROLLER, "the controller has resigned"))
        self._commands.clear()

    def _draw_id(self) -> Uuid:
        while True:
            drawn = self._parts.random.token(16)
            if is_usable_uuid(drawn):
                return drawn


def _fail(reply: asyncio.Future[Results], error: KafkaError) -> None:
    if not reply.done():
        reply.set_exception(error)
        # Whoever asked may have stopped waiting; that is no reason for a warning.
        reply.exception()


def _outcome(
    node_id: int, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> tuple[list[TopicPartition], tuple[TopicPartition, ...], tuple[TopicPartition, ...]]:
    """Replicas that took on their role, those whose disk failed, and those that refused it."""
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    served: list[TopicPartition] = []
    failed: list[TopicPartition] = []
    refused: list[TopicPartition] = []
    for topic in response.topics:
        for partition in topic.partition_errors:
            error, name = error_code(partition.error_code), names.get(topic.topic_id)
            if name is None:
                continue
            item = TopicPartition(name, partition.partition_index)
            if error is ErrorCode.NONE:
                served.append(item)
                continue
            (failed if error is ErrorCode.KAFKA_STORAGE_ERROR else refused).append(item)
            logger.info("broker %d has not taken on its role in %s: %s", node_id, item, error)
    return served, tuple(failed), tuple(refused)
