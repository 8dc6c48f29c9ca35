"""One controllership: from the election until resignation, one event at a time.

It owns the machine, the queue of events and the senders; all of them are discarded when it ends
(C-04). Watches only put marks on the queue; a marked path is read when its turn comes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.controlling.announcements import Announcements
from ottla.broker.controlling.chores import RECONCILE, ControllerChores
from ottla.broker.controlling.controller_queue import ControllerCommand, ControllerQueue, fail
from ottla.broker.controlling.lost_replicas import LostReplicas, RefusedRoles
from ottla.broker.controlling.metadata_rescan import MetadataRescan, Wanted
from ottla.broker.controlling.role_answers import deleted_topics, role_answers
from ottla.broker.controlling.senders import Reports, Senders
from ottla.broker.controlling.state_log import StateLog
from ottla.broker.controlling.store_reader import CONFIGURED_TYPES, StoreReader, drawn_id
from ottla.coordinator.controller.events import (
    BalanceDue,
    BrokerAnswers,
    BrokerSuspected,
    ControllerDecision,
    Event,
    ReplicasAwaited,
    ReplicasBack,
    ReplicasDeleted,
    ReplicasFailed,
    RolesRefused,
    RoomRead,
)
from ottla.coordinator.controller.finished import FinishedTopics
from ottla.coordinator.controller.machine import Controller
from ottla.coordinator.metadata.changes import PartitionChanged
from ottla.coordinator.metadata.image import MetadataImage
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import (
    BadVersion,
    Check,
    ConnectionLoss,
    GroupFailed,
    Replace,
    SessionExpired,
    StoreError,
)
from ottla.protocol.errors import ErrorCode, Fenced, KafkaError, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ottla.broker.controlling.peer_watch import PeerWatch
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.partitions.control import ControlChannel, ControlResponse
    from ottla.coordinator.controller.events import AnyControlRequest, ControllerEpoch, Reply, Write
    from ottla.coordinator.controller.specs import ControllerSettings
    from ottla.coordinator.controller.topics import ConfigCheck
    from ottla.coordinator.metadata.delta import MetadataDelta
    from ottla.coordinator.store.store import MetadataSession, WatchEvent
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Clock, Random

logger = logging.getLogger("ottla.controller")

# How often a decision is repeated when another client has changed the same znodes.
REFUSALS_MAX = 20


class ControllerParts(NamedTuple):
    """The dependencies of every controllership of this broker."""

    settings: ControllerSettings
    check_configs: ConfigCheck
    channel: ControlChannel
    clock: Clock
    random: Random
    tasks: Tasks
    # Without it, the death of a controller is noticed only when its session ends.
    peer_watch: PeerWatch | None = None


class _Refusal(NamedTuple):
    """The write of a decision that the store refused, and the reason; earlier writes were done."""

    place: int
    error: GroupFailed


class Controllership:
    """Created after an election; ``run`` ends only with an exception. ``doubted``: brokers that
    seem to be dead before the store has noticed."""

    def __init__(
        self,
        session: MetadataSession,
        cluster_id: str,
        identity: ControllerEpoch,
        epoch_version: int,
        parts: ControllerParts,
        doubted: frozenset[int] = frozenset(),
    ) -> None:
        self.identity = identity
        # Whether the store was read, the elections are done and the brokers are informed.
        self.is_complete = False
        self._session = session
        self._cluster_id = cluster_id
        self._parts = parts
        self._guard = Check(paths.CONTROLLER_EPOCH, epoch_version)
        self._reader = StoreReader(
            session,
            self._on_watch,
            self._guard,
            lambda: drawn_id(parts.random),
            parts.settings.delete_topic_enable,
            Announcements(session, self._on_watch, self._guard),
        )
        self._rereading = MetadataRescan(self._reader, lambda: self.machine.image)
        self._current: Controller | None = None
        self._state_log = StateLog(MetadataImage(cluster_id))
        self._queue = ControllerQueue()
        queue, clock = self._queue.put, parts.clock
        self._lost = LostReplicas(clock, lambda node_id: queue(ReplicasAwaited(node_id)))
        self._refused = RefusedRoles(clock, lambda node, items: queue(RolesRefused(node, items)))
        self._chores = ControllerChores(clock, parts.settings, self._queue.mark, queue)
        reports = Reports(
            self._on_answer,
            lambda node_id, generation: queue(BrokerSuspected(node_id, generation)),
            lambda node_id: queue(BrokerAnswers(node_id)),
        )
        self._senders = Senders(parts.channel, clock, parts.tasks, reports, doubted)
        self._is_over = False

    # ---- calls from other parts ----

    async def run(self) -> None:
        """Lead until an error or cancellation. Raises Fenced or StoreError."""
        try:
            await self._check_place()
            await self._load()
            await self._advance()
            self.is_complete = True
            # Requests from the time without a controller, in the order of their dependencies.
            for path in (
                paths.REASSIGN_PARTITIONS,
                paths.DELETE_TOPICS,
                paths.PREFERRED_ELECTION,
                paths.LOG_DIR_EVENTS,
                paths.FULL_DISKS,
            ):
                self._queue.mark(path)
            self._chores.begin()
            while True:
                await self._take(await self._queue.next())
        finally:
            self._resign()

    def ask(self, prepare: Callable[[], Awaitable[Event]]) -> asyncio.Future[Any]:
        """Queue an event; the result is its ``Reply``. Raises KafkaError.

        Cancelling the future does not undo it (P-04)."""
        return self._queue.ask(prepare)

    def told(self) -> list[asyncio.Future[None]]:
        """Return futures that are done when every responding broker knows all decisions."""
        return self._senders.told()

    @property
    def machine(self) -> Controller:
        """The present machine; it is replaced when the whole store was read again."""
        assert self._current is not None, "the world is read first"
        return self._current

    async def prepare_deletion(self, topics: Sequence[tuple[str, Uuid]]) -> Event:
        """Read what remains to be deleted of these topics."""
        return await self._rereading.deletion(topics)

    def configs_changed(self, delta: MetadataDelta) -> None:
        """This broker has learned of changed settings; settings of topics that this controller has
        just created are already known."""
        known = None if self._current is None else self.machine.image.configs
        for entity in delta.configs:
            is_new = known is None or known.get(entity) != delta.after.configs.get(entity)
            if is_new and entity.entity_type in CONFIGURED_TYPES:
                self._queue.mark(paths.config(*entity))

    # ---- events ----

    async def _take(self, item: str | Event | ControllerCommand) -> None:
        if isinstance(item, str):
            await self._read_again(item)
        elif isinstance(item, ControllerCommand):
            await self._obey(item)
        else:
            await self._perform(item)

    def _on_watch(self, event: WatchEvent) -> None:
        if not self._is_over and not self._chores.defers(event.path):
            self._queue.mark(event.path)

    async def _read_again(self, path: str) -> None:
        if path == paths.CONTROLLER:
            await self._check_place()
        elif path == RECONCILE:
            topics = self.machine.image.topics
            names = self._chores.next_slice([topics[name] for name in sorted(topics)])
            for wanted in self._rereading.of_slice(names):
                await self._perform(wanted)
        else:
            for wanted in await self._rereading.of(path):
                await self._perform(wanted)

    async def _check_place(self) -> None:
        """/controller has changed: an operator forces an election, or the session has expired."""
        found = await self._session.exists(paths.CONTROLLER, self._on_watch)
        if found is None or found.ephemeral_owner != self._session.session_id:
            raise Fenced("this broker is no longer the controller")

    # ---- deciding and carrying out ----

    async def _obey(self, command: ControllerCommand) -> None:
        try:
            results = await self._perform(command.prepare)
        except (StoreError, Fenced, asyncio.CancelledError):
            # Part of it may have been done: the caller must assume neither.
            fail(command.reply, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the outcome is unknown"))
            raise
        else:
            if not command.reply.done():
                command.reply.set_result(results)

    async def _perform(self, wanted: Wanted) -> Reply:
        """Decide and carry out; repeat while other clients change the same znodes (ZKT-26).

        If ``event`` is a function, it is called again for each attempt."""
        untold: list[TopicPartition] = []
        finished = FinishedTopics()
        for _attempt in range(REFUSALS_MAX):
            event = finished.left(await wanted() if callable(wanted) else wanted)
            if isinstance(event, ReplicasAwaited):
                self._lost.asked(event.node_id, self.machine.offline_on(event.node_id))
            decision = self.machine.handle(event, self._parts.clock.now_ms())
            refusal = await self._carry_out(decision, untold)
            if refusal is None:
                if isinstance(event, BalanceDue):
                    owes_some = self.machine.owes_leaderships
                    self._chores.balanced(moved_some=bool(decision.records), owes_some=owes_some)
                elif isinstance(event, RoomRead) and self.machine.owes_leaderships:
                    self._chores.balance_soon()
                await self._advance()
                return finished.reply(decision.reply or ())
            finished.took(decision, refusal.place)
            await self._recover(decision, refusal, untold)
        raise Fenced("the store keeps refusing a decision")

    async def _advance(self) -> None:
        """Continue work that takes several steps, as far as possible."""
        untold: list[TopicPartition] = []
        refusal_count = 0
        while refusal_count < REFUSALS_MAX:
            decision = self.machine.advance()
            if decision is None:
                return
            refusal = await self._carry_out(decision, untold)
            if refusal is not None:
                refusal_count += 1
                await self._recover(decision, refusal, untold)
        raise Fenced("the store keeps refusing a decision")

    async def _carry_out(
        self, decision: ControllerDecision, untold: list[TopicPartition]
    ) -> _Refusal | None:
        """Do all writes, then send; or stop at the first refused write.

        ``untold``: writes of earlier attempts that have not been sent to the brokers yet."""
        machine = self.machine
        for index, write in enumerate(decision.records):
            self._chores.writing(write.changes)
            refused = await self._write(write)
            if refused is not None:
                return _Refusal(index, refused)
            self._state_log.take(machine.image, write)
            machine.replay(write)
        self._senders.keep_only(machine.image.brokers)
        if untold:
            self._senders.send(machine.announce(untold).messages)
            untold.clear()
        self._senders.send(decision.messages)
        if decision.records or decision.messages:
            logger.debug("controller epoch %d: %s", self.identity.epoch, decision.reason)
        return None

    async def _write(self, write: Write) -> GroupFailed | None:
        if not write.operations:
            return None
        try:
            await self._session.multi([self._guard, *write.operations])
        except GroupFailed as failed:
            if failed.index == 0:
                raise Fenced("another controller was elected") from failed
            # Another client wrote first, such as a leader with its ISR: decide again.
            logger.debug("the store refused a decision: %s", failed)
            return failed
        except (ConnectionLoss, SessionExpired) as error:
            raise Fenced(f"a write with unknown outcome: {error}") from error
        return None

    async def _recover(
        self, decision: ControllerDecision, refusal: _Refusal, untold: list[TopicPartition]
    ) -> None:
        """Read the state that refused the write; read the whole store only if that is unclear."""
        write = decision.records[refusal.place]
        done = [change for one in decision.records[: refusal.place] for change in one.changes]
        at_fault = write.operations[refusal.error.index - 1]
        is_state = isinstance(at_fault, Replace) and at_fault.path.endswith("/state")
        if is_state and isinstance(refusal.error.error, BadVersion):
            written = [change for change in done if isinstance(change, PartitionChanged)]
            concerned = [change for change in write.changes if isinstance(change, PartitionChanged)]
            items = [TopicPartition(one.topic, one.partition) for one in concerned]
            event = await self._rereading.states(items)
            news = self.machine.handle(event, self._parts.clock.now_ms())
            # Only this decision knows which replicas to stop; later reads do not find them again.
            is_whole = not done or not any(
                isinstance(one.request, StopReplicaRequest) for one in decision.messages
            )
            if is_whole and len(written) == len(done) and news.records:
                untold += [TopicPartition(one.topic, one.partition) for one in written]
                if await self._carry_out(news, []) is None:
                    return
        await self._load()
        untold.clear()

    async def _load(self) -> None:
        """Read the store, elect leaders, inform the brokers; repeat if the store has changed."""
        for _attempt in range(REFUSALS_MAX):
            world = await self._reader.read(self._cluster_id, self.identity)
            machine = Controller(
                self.identity, self._parts.settings, world, self._parts.check_configs
            )
            if self._current is not None:
                machine.context.inherit(self._current.context)
                self._queue.mark(paths.REASSIGN_PARTITIONS)
            self._current = machine
            self._state_log = StateLog(machine.image)
            if await self._carry_out(machine.start(self._parts.clock.now_ms()), []) is None:
                return
        raise Fenced("the store refuses to be settled")

    # ---- answers, and the end ----

    def _on_answer(
        self, node_id: int, request: AnyControlRequest, response: ControlResponse
    ) -> None:
        if error_code(response.error_code) is ErrorCode.STALE_CONTROLLER_EPOCH:
            self._queue.mark(paths.CONTROLLER)
        if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
            answers = role_answers(node_id, request, response)
            back = self._lost.take_back(node_id, answers.served)
            if back:
                self._queue.put(ReplicasBack(node_id, back))
            if answers.failed:
                self._queue.put(ReplicasFailed(node_id, answers.failed))
                self._lost.failed(node_id)
            if answers.refused:
                self._refused.refused(node_id, answers.refused)
        if isinstance(request, StopReplicaRequest) and isinstance(response, StopReplicaResponse):
            gone = deleted_topics(request, response)
            if gone:
                self._queue.put(ReplicasDeleted(node_id, gone))

    def _resign(self) -> None:
        self._is_over = True
        self._senders.stop()
        for part in (self._lost, self._refused, self._chores):
            part.stop()
        self._queue.close()
