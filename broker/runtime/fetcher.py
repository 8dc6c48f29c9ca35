"""One fetcher: asks one leader for all that is followed of it, over and over, and does as told.

One request is on its way at a time, on a connection of its own. What an answer means is decided in
broker/replica/following_steps.py, and done at once partition by partition; a log that has to be
cut is busy meanwhile, and the others go on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.broker.replica.following import Followed, Following, Pauses
from ottla.broker.replica.following_session import FetchSession
from ottla.broker.replica.following_steps import Action, step_for
from ottla.broker.runtime.fetcher_log import (
    append_fetched,
    begin_within,
    cut_back,
    fetched_runs,
    may_change,
    raise_log_start,
    start_over,
)
from ottla.broker.runtime.fetcher_wire import (
    FETCH,
    Manner,
    Sender,
    build_request,
    parts_of,
    told_by,
    version_for,
)
from ottla.client.errors import ClientError
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError, error_code
from ottla.protocol.ids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ottla.broker.replica.following_steps import Ask, Step, Told
    from ottla.broker.runtime.partition import PartitionRuntime
    from ottla.broker.runtime.throttles import ReplicationThrottles
    from ottla.broker.tasks import Tasks
    from ottla.client.api import Api
    from ottla.protocol.ids import TopicPartition, Uuid
    from ottla.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
    from ottla.protocol.ports import Clock, Timer

logger = logging.getLogger("ottla.replication")

# A request that only waits for news is given up for a partition that was added meanwhile.
HURRY_MS = 10.0


class FetchConnection(Protocol):
    """What a fetcher needs of a connection to another broker."""

    @property
    def closed(self) -> bool: ...

    def version_of(self, api: Api[FetchRequest, FetchResponse], /) -> int: ...

    def send(
        self,
        api: Api[FetchRequest, FetchResponse],
        request: FetchRequest,
        /,
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
    ) -> asyncio.Future[FetchResponse]: ...

    def close(self, reason: str = "") -> None: ...


class Peers(Protocol):
    """The way to other brokers (read peers.py)."""

    async def connect(self, node_id: int, *, purpose: str) -> FetchConnection:
        """A new connection. Raises KafkaError, ClientError, OSError."""


class FetcherParts(NamedTuple):
    """What all fetchers of a broker share. ``sender`` is asked for each request."""

    peers: Peers
    sender: Callable[[], Sender]
    clock: Clock
    tasks: Tasks
    manner: Manner = Manner()
    pauses: Pauses = Pauses()
    timeout_ms: float = 30_000.0
    throttles: ReplicationThrottles | None = None


class Fetcher:
    """Owned by ``Fetchers``; runs as long as anything is followed of its leader."""

    def __init__(
        self, leader: int, number: int, parts: FetcherParts, works: set[asyncio.Task[None]]
    ) -> None:
        self.leader = leader
        self.name = f"fetcher {number} of broker {leader}"
        self.following = Following(parts.pauses)
        self.fetched_bytes = 0
        self.request_count = 0
        self._parts = parts
        self._clock = parts.clock
        # Logs being cut, by whichever fetcher.
        self._works = works
        self._runtimes: dict[TopicPartition, PartitionRuntime] = {}
        self._names: dict[Uuid, str] = {}
        self._raising: set[TopicPartition] = set()
        self._connection: FetchConnection | None = None
        self._session = FetchSession()
        self._wake = asyncio.Event()
        self._failure_count = 0
        self._is_asking = False
        self._is_hurried = False
        self._timer: Timer | None = None

    # ---- what is followed ----

    def follow(self, runtime: PartitionRuntime) -> None:
        """Fetch a partition under the leader epoch that it has now."""
        partition = runtime.partition
        known = self.following.get(partition)
        is_same = known is not None and known.leader_epoch == runtime.replica.leader_epoch
        if is_same and self._runtimes[partition] is runtime:
            return
        topic_id = runtime.log.topic_id or ZERO_UUID
        self._names[topic_id] = partition.topic
        self._runtimes[partition] = runtime
        self.following.add(Followed(partition, topic_id, runtime.replica))
        self._hurry()

    def leave(self, partition: TopicPartition) -> bool:
        """Fetch a partition no more; an answer that is under way means nothing for it."""
        self._runtimes.pop(partition, None)
        return self.following.remove(partition)

    def _hurry(self) -> None:
        self._wake.set()
        if self._is_asking and self._timer is None:
            asked = self.request_count
            self._timer = self._clock.call_at(
                self._clock.now_ms() + HURRY_MS, lambda: self._interrupt(asked)
            )

    def _interrupt(self, asked: int) -> None:
        """The leader may keep a request for long; a new epoch's first fetch cannot wait for that,
        since no record is committed in it before."""
        self._timer = None
        if self._is_asking and self.request_count == asked and self._connection is not None:
            self._is_hurried = True
            self._connection.close("another partition is to be fetched")

    # ---- the loop ----

    async def run(self) -> None:
        """Fetch until cancelled."""
        try:
            while True:
                self._wake.clear()
                now_ms = self._clock.now_ms()
                ready = self.following.ready(now_ms)
                next_ready_ms = self.following.next_ready_ms(now_ms)
                if not ready:
                    await self._sleep(next_ready_ms)
                    continue
                wait_ms = None if next_ready_ms is None else next_ready_ms - now_ms
                try:
                    response = await self._ask([(one, one.ask()) for one in ready], wait_ms)
                except (OSError, KafkaError, ClientError) as error:
                    self._drop_connection(error)
                    await self._pause(now_ms)
                    continue
                await self._take(response)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._connection is not None:
                self._connection.close("nothing is fetched any more")

    async def _ask(self, asked: list[tuple[Followed, Ask]], wait_ms: float | None) -> FetchResponse:
        """``wait_ms``: when somebody else may be asked for, too."""
        self._is_hurried = False
        connection = self._connection
        if connection is None or connection.closed:
            connection = await self._parts.peers.connect(self.leader, purpose="fetcher")
            self._connection = connection
        version = version_for(connection.version_of(FETCH), asked)
        delta = self._session.next_request(asked)
        request = build_request(delta, self._parts.sender(), self._parts.manner, version)
        if wait_ms is not None:
            request.max_wait_ms = min(request.max_wait_ms, max(1, int(wait_ms)))
        self.request_count += 1
        self._is_asking = True
        try:
            return await connection.send(
                FETCH, request, version=version, timeout_ms=self._parts.timeout_ms
            )
        finally:
            self._is_asking = False

    def _drop_connection(self, error: Exception) -> None:
        self._session.lost()
        if self._connection is not None:
            self._connection.close("a fetch has failed")
            self._connection = None
        if self._is_hurried:
            return
        if self._failure_count == 0:
            logger.warning("%s: %s", self.name, error)
        self._failure_count += 1

    async def _pause(self, begun_ms: float) -> None:
        """Between attempts, from the start of one to that of the next: who has waited in vain for
        a connection has paused already, and the cut may be healed."""
        if self._is_hurried:
            self._is_hurried = False
            return
        pause_ms = self._parts.pauses.after(self._failure_count - 1)
        await self._clock.sleep(max(0.0, begun_ms + pause_ms - self._clock.now_ms()))

    async def _sleep(self, until_ms: float | None) -> None:
        timer = None if until_ms is None else self._clock.call_at(until_ms, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    # ---- answers ----

    async def _take(self, response: FetchResponse) -> None:
        error = error_code(response.error_code)
        self._session.answered(error, response.session_id)
        if error is not ErrorCode.NONE:
            logger.info("%s: %s", self.name, error.text)
            if self._failure_count:
                await self._clock.sleep(self._parts.pauses.after(self._failure_count - 1))
            self._failure_count += 1
            return
        if self._failure_count:
            logger.info("%s: it answers again", self.name)
            self._failure_count = 0
        for partition, part in parts_of(response, self._names):
            asked = self._session.asked_for(partition)
            if asked is not None and self._take_part(*asked, part):
                # So that ten partitions of a megabyte each are not one long standstill.
                await asyncio.sleep(0)

    def _take_part(self, one: Followed, ask: Ask, part: PartitionData) -> bool:
        """Do what the answer means for one partition; whether that was much."""
        if not self.following.holds(one):
            return False
        runtime = self._runtimes[one.partition]
        if one.is_busy or not may_change(runtime, ask.leader_epoch):
            return False
        told = told_by(part)
        step = step_for(ask, told, one.replica)
        if step.action is Action.APPEND:
            return self._append(one, step, told, part)
        if step.action is Action.WAIT and one.failure_count == 0:
            logger.info(
                "%s-%d: broker %d answers the fetch at offset %d in epoch %d: %s",
                *one.partition,
                self.leader,
                ask.fetch_offset,
                ask.leader_epoch,
                step.error.text,
            )
        self.following.taken(one, step, self._clock.now_ms())
        if step.action is Action.TRUNCATE:
            self._work(one, cut_back(runtime, step.offset, ask.leader_epoch))
        elif step.action is Action.RESTART:
            self._work(one, start_over(runtime, step.offset, ask.leader_epoch))
        return False

    def _append(self, one: Followed, step: Step, told: Told, part: PartitionData) -> bool:
        runtime = self._runtimes[one.partition]
        log = runtime.log
        records = part.records
        now_ms = self._clock.now_ms()
        try:
            runs = (
                fetched_runs(runtime, records, one.leader_epoch)
                if isinstance(records, memoryview | bytes) and step.has_records
                else []
            )
            if runs and runs[0][0].base_offset < log.log_end_offset:
                self._work(one, begin_within(runtime, runs, told, one.leader_epoch))
                return True
            written_bytes = append_fetched(runtime, runs, told.high_watermark, now_ms)
            self.fetched_bytes += written_bytes
        except KafkaError as error:
            self._rest(one, error)
            return False
        one.lag = max(0, told.high_watermark - log.log_end_offset)
        self.following.taken(one, step, now_ms)
        throttles = self._parts.throttles
        if throttles is not None and written_bytes:
            hold_ms = throttles.hold_followed_ms(runtime, written_bytes, is_caught_up=one.lag == 0)
            if hold_ms > 0:
                one.not_before_ms = now_ms + hold_ms
        if told.log_start_offset > log.log_start_offset and one.partition not in self._raising:
            self._raising.add(one.partition)
            self._spawn(one, self._raise_start(one, runtime, told.log_start_offset))
        return bool(runs)

    async def _raise_start(self, one: Followed, runtime: PartitionRuntime, offset: int) -> None:
        """Fetching goes on meanwhile: only the log's other end is concerned."""
        try:
            await raise_log_start(runtime, offset, one.leader_epoch)
        except KafkaError as error:
            self._rest(one, error)
        finally:
            self._raising.discard(one.partition)

    def _work(self, one: Followed, coroutine: Coroutine[None, None, None]) -> None:
        """Change the log in a task of its own: cancelled half-way, it would be unusable (P-04)."""
        one.is_busy = True
        self._spawn(one, self._finish(one, coroutine))

    def _spawn(self, one: Followed, coroutine: Coroutine[None, None, None]) -> None:
        name = f"cutting {one.partition.topic}-{one.partition.partition}"
        task = self._parts.tasks.spawn(name, coroutine)
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    async def _finish(self, one: Followed, coroutine: Coroutine[None, None, None]) -> None:
        try:
            await coroutine
        except (KafkaError, CorruptLogError) as error:
            self._rest(one, error)
        finally:
            one.is_busy = False
            self._hurry()

    def _rest(self, one: Followed, error: Exception) -> None:
        if one.failure_count == 0:
            logger.error("%s-%d cannot follow broker %d: %s", *one.partition, self.leader, error)
        self.following.rest(one, self._clock.now_ms())
