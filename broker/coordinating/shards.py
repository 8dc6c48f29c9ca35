"""Runs one coordinator machine on its internal partition.

A shard lives as long as this broker leads its partition without interruption, in one leader epoch
or in several: the controller raises it when a follower leaves the ISR. The shard loads, then passes
requests to the machine and performs its effects: it appends to the log in the same step in which
the machine decided (hazard G-02); the machine returns dependent answers once it learns that the
appends are committed (G-03). In case of doubt the machine is discarded and a new one is loaded:
decisions are never undone.
"""

from __future__ import annotations

import logging
from collections import deque
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol

from ottla.broker.coordinating.shards_appends import (
    OpenAppends,
    as_coordinator,
    batch_bytes_max,
    encoded,
    limited,
)
from ottla.broker.coordinating.shards_machine import M, Machine, MachineReplay
from ottla.broker.coordinating.shards_markers import ShardMarkers
from ottla.broker.replica.append import AppendPlan
from ottla.coordinator.effects import Append, Moment, SendResponse
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.coordinating.shards_loading import Loader
    from ottla.broker.coordinating.stalls import StallClock
    from ottla.broker.engine.deferred import DeferredAnswer
    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.engine.timing_wheel import TimingWheel, WheelTimer
    from ottla.broker.partitions.append_outcome import AppendOutcome
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.produces import Flushes
    from ottla.broker.partitions.read_barriers import ReadBarriers
    from ottla.coordinator.effects import RequestOrigin, Ticket, Token
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.coordinator")

ACKS_ALL = -1
# Pause after a bug that the next deadline would find again, or a file that cannot be opened at the
# moment: the loop must not be kept busy.
_PAUSE_MS = 1_000.0
_PAUSE_MS_MAX = 60_000.0
_NONE = ErrorCode.NONE


class PendingReply(NamedTuple):
    """A waiting request: the callback for its answer, and the one for a failure."""

    later: DeferredAnswer[Any]
    refuse: Callable[[ErrorCode], Any]


class ShardState(Enum):
    """LOADING answers COORDINATOR_LOAD_IN_PROGRESS. COORDINATOR_NOT_AVAILABLE is the answer of
    DAMAGED, whose log cannot be read, and of FAILED, which has met a bug and will be loaded
    again."""

    LOADING = auto()
    ACTIVE = auto()
    DAMAGED = auto()
    FAILED = auto()
    ENDED = auto()


class Performer(Protocol):
    """Performs the effects of one kind of machine besides answers and appends, now or later, and
    reports the outcome with ``Shard.report``."""

    def perform(self, shard: Shard[Any], effect: Any) -> object: ...

    def forget(self, machine: Machine) -> object:
        """The machine has been discarded: drop what waits for its effects."""


class ShardParts(NamedTuple):
    """The dependencies that all shards of a coordinator share.

    ``commit_timeout_ms``: how long a request waits for an append to be committed; for groups it is
    offsets.commit.timeout.ms. ``performer`` performs effects that only machines of one kind
    have."""

    clock: Clock
    stalls: StallClock
    wheel: TimingWheel
    waiting: Purgatory
    tasks: Tasks
    flushes: Flushes
    loader: Loader
    barriers: ReadBarriers
    commit_timeout_ms: float
    codec: Codec = Codec.NONE
    performer: Performer | None = None


class Shard(Generic[M]):
    """Owned by the coordinator; created when this broker begins to lead its partition.

    ``make_machine`` returns an empty machine. ``load`` is called once; ``end`` is final."""

    def __init__(
        self,
        partition: PartitionRuntime,
        make_machine: Callable[[], M],
        parts: ShardParts,
    ) -> None:
        self.partition = partition
        # The latest leader epoch that the coordinator has set.
        self.leader_epoch = partition.leader_epoch
        self.state = ShardState.LOADING
        self._make_machine = partial(limited, make_machine, partition)
        self.machine = self._make_machine()
        self._parts = parts
        self._make_appends = partial(
            OpenAppends,
            partition,
            parts.waiting,
            parts.clock,
            parts.commit_timeout_ms,
            self._on_settled,
            self._on_overdue,
        )
        self._appends = self._make_appends()
        self.markers = ShardMarkers(self)
        self._asked: dict[Ticket, PendingReply] = {}
        self._last_ticket = 0
        self._effects: deque[Any] = deque()
        self._is_performing = False
        self._timer: WheelTimer | None = None
        self._armed_ms = 0.0
        # How many consecutive loads have met a bug.
        self._failed_count = 0

    def check(self) -> ErrorCode:
        """Whether the machine may be called now. Valid only while this broker leads (G-12)."""
        if self.state is ShardState.ACTIVE:
            # Also while the next epoch is being made durable: appends are answered afterwards.
            led = self.partition.replica.leads_since(self.leader_epoch)
            return _NONE if led else ErrorCode.NOT_COORDINATOR
        if self.state is ShardState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if self.state in (ShardState.DAMAGED, ShardState.FAILED):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NOT_COORDINATOR

    # ---- loading and ending ----

    def load(self) -> None:
        """Begin to load the partition; requests are refused until it is loaded."""
        parts = self._parts
        self._timer = None
        self.state = ShardState.LOADING
        parts.tasks.spawn(f"load {self.partition.partition}", self._load(self.machine))

    async def _load(self, machine: M) -> None:
        def is_wanted() -> bool:
            is_led = self.partition.replica.leads_since(self.leader_epoch)
            return self.state is ShardState.LOADING and self.machine is machine and is_led

        replay = MachineReplay(machine, self._moment)
        started_ms = self._parts.clock.now_ms()
        try:
            count = await self._parts.loader.load(self.partition, replay, is_wanted)
            if count is not None:
                self._begin(machine, count, self._parts.clock.now_ms() - started_ms)
        except (KafkaError, CorruptLogError) as error:
            may_pass = isinstance(error, KafkaError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR
            if is_wanted() and may_pass:
                # Otherwise the directory fails, and the partition is removed.
                self._reload(_PAUSE_MS)
            elif is_wanted():
                self.state = ShardState.DAMAGED
                logger.error("%s-%d cannot be loaded: %s", *self.partition.partition, error)
        except Exception as error:
            # A bug. If the task ended with it, the broker would stop, and with it all other shards.
            if self.machine is machine and self.state in (ShardState.LOADING, ShardState.ACTIVE):
                self._fail(error)

    def _begin(self, machine: M, count: int, took_ms: float) -> None:
        """The partition is loaded."""
        effects = machine.on_loaded(self._moment())
        self.state = ShardState.ACTIVE
        self._call(lambda _moment: effects)
        self._failed_count = 0
        if count:
            where = self.partition.partition
            logger.info("loaded %d records of %s-%d in %d ms", count, *where, took_ms)

    def _fail(self, error: Exception) -> None:
        """The machine may have applied records in part: load a new one, after increasing pauses."""
        pause_ms = min(_PAUSE_MS * 2**self._failed_count, _PAUSE_MS_MAX)
        self._failed_count += 1
        logger.error(
            "%s-%d cannot be loaded because of an error in the broker: %r. Its groups or "
            "transactional ids are unavailable; the next attempt is in %d s",
            *self.partition.partition,
            error,
            pause_ms / 1_000,
            exc_info=error,
        )
        self._reload(pause_ms, ShardState.FAILED)

    def end(self, error: ErrorCode) -> None:
        """Answer every waiting request with the error and stop."""
        if self.state is ShardState.ENDED:
            return
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.ENDED
        self._drop(error, ask_machine=was_active)

    def _reload(self, pause_ms: float = 0.0, meanwhile: ShardState = ShardState.LOADING) -> None:
        """Discard the machine, whose state may differ from the log."""
        if meanwhile is ShardState.LOADING:
            logger.warning("%s-%d is loaded again", *self.partition.partition)
        self.state = meanwhile
        self._drop(self.check(), ask_machine=False)
        self.machine = self._make_machine()
        self._appends = self._make_appends()
        if pause_ms:
            due_ms = self._parts.clock.now_ms() + pause_ms
            self._timer = self._parts.wheel.call_at(due_ms, self.load)
        else:
            self.load()

    def _drop(self, error: ErrorCode, *, ask_machine: bool) -> None:
        self._appends.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Earlier effects of the machine are not performed: it may no longer write to its log.
        effects = list(self._effects)
        self._effects.clear()
        if self._parts.performer is not None:
            self._parts.performer.forget(self.machine)
        effects += self.machine.unload(error) if ask_machine else []
        for effect in effects:
            if isinstance(effect, SendResponse):
                self._asked.pop(effect.ticket).later.complete(effect.response)
        asked, self._asked = self._asked, {}
        for one in asked.values():
            one.later.complete(one.refuse(error))
        self.markers.fail_all()

    # ---- requests to the machine ----

    def handle(self, request: Any, caller: RequestOrigin, asked: PendingReply) -> None:
        """Pass a request to the machine after ``check``; the answer comes now or later."""
        self._last_ticket = ticket = self._last_ticket + 1
        self._asked[ticket] = asked
        self._call(partial(self.machine.handle, request, caller, ticket))

    def on_topics_changed(self) -> None:
        """Topics or their partitions have changed."""
        if self.state is ShardState.ACTIVE:
            self._call(self.machine.on_topics_changed)

    def report(self, machine: M, ask: Callable[[Moment], Sequence[object]]) -> None:
        """Report the outcome of an effect to the machine; a discarded machine gets no report."""
        if self.machine is not machine or self.state is not ShardState.ACTIVE:
            return
        try:
            self._call(ask)
        except Exception as error:
            # A bug, for which the machine is discarded. The error must not reach the caller, which
            # serves other shards, too.
            logger.error("%s-%d: %r", *self.partition.partition, error, exc_info=error)

    def _on_settled(self, token: Token, error: ErrorCode) -> None:
        if token < 0:
            self.markers.settled(token, error)
        elif error is _NONE:
            self._call(partial(self.machine.committed, token))
        else:
            self._call(partial(self.machine.failed, token, as_coordinator(error)))

    def _on_overdue(self, token: Token) -> None:
        if token < 0:
            self.markers.overdue(token)
        else:
            self._call(partial(self.machine.overdue, token))

    def _moment(self) -> Moment:
        return self._parts.stalls.moment()

    def _call(self, ask: Callable[[Moment], Sequence[object]]) -> None:
        """Call the machine and perform its effects."""
        machine = self.machine
        is_sane = False
        try:
            self._effects += ask(self._moment())
            is_sane = True
        finally:
            if not is_sane and self.state is ShardState.ACTIVE:
                # A bug in a decision, which may be applied in part.
                self._reload(_PAUSE_MS)
        if not self._is_performing:
            self._perform()
        if self.machine is machine and self.state is ShardState.ACTIVE:
            if machine.must_reload:
                self._reload()
            else:
                self._arm()

    def _perform(self) -> None:
        """Perform effects in the order of the decisions. Sending an answer may make the next
        request of its connection arrive: its effects wait in the queue."""
        self._is_performing = True
        try:
            while self._effects:
                effect = self._effects.popleft()
                if isinstance(effect, SendResponse):
                    self._asked.pop(effect.ticket).later.complete(effect.response)
                elif isinstance(effect, Append):
                    self._append(effect)
                else:
                    assert self._parts.performer is not None, "this effect needs a performer"
                    self._parts.performer.perform(self, effect)
        finally:
            self._is_performing = False

    # ---- appending ----

    def _append(self, append: Append) -> None:
        partition = self.partition
        codec = partition.settings.append_rules.codec
        data = encoded(
            append, self._parts.clock.wall_ms(), self._parts.codec if codec is None else codec
        )
        if len(data) > batch_bytes_max(partition):
            self._on_settled(append.token, ErrorCode.MESSAGE_TOO_LARGE)
            return
        if not partition.replica.leads_since(self.leader_epoch):
            self._on_settled(append.token, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        machine = self.machine
        written = partition.write(AppendPlan(_NONE, None, parse_batch(data)), ACKS_ALL)
        if self.machine is not machine or self.state is not ShardState.ACTIVE:
            # A disk failure has removed the partition, and all waiting requests are answered.
            return
        if written.error_code is not _NONE:
            self._on_settled(append.token, written.error_code)
            return
        self.follow(append.token, written)

    def follow(self, token: Token, written: AppendOutcome) -> None:
        """Follow the outcome of an append, after those before it."""
        if needs_flush := self.partition.flush_is_due:
            self._parts.flushes.start(self.partition)
        outcome = self._appends.outcome(written.next_offset, needs_flush=needs_flush)
        if outcome is not None and not self._appends:
            self._on_settled(token, outcome)
        else:
            self._appends.add(token, written.next_offset, needs_flush=needs_flush)

    # ---- deadlines ----

    def _arm(self) -> None:
        """Set a timer for the machine's next deadline. A timer that rings too early checks again:
        heartbeats move deadlines all the time, without moving the timer."""
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._armed_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._armed_ms = deadline_ms
        real_ms = self._parts.stalls.real_ms(deadline_ms)
        self._timer = self._parts.wheel.call_at(real_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.state is not ShardState.ACTIVE:
            return
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is None:
            return
        # After a stall this clock stands still, so members get time to be heard (G-09).
        if deadline_ms > self._parts.stalls.now_ms() or self.check() is not _NONE:
            self._arm()
        else:
            self._call(self.machine.on_deadline)
