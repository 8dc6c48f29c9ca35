"""The controller's requests on their way to the brokers: two queues per broker, a lane for each.

Roles may wait for a slow disk, and what the cluster looks like must not wait for them: a broker
that is behind sends clients to leaders and coordinators of long ago. So updates of the metadata
overtake roles that are being taken on. The other way round order is kept (C-11): a role may name a
leader whose address an earlier update has told. A complete update is itself the end of roles that
were told in full, and nothing overtakes it.

Bound to one controllership and, each sender, to one generation of its broker: nothing of a
resigned controller leaves any more (C-04), nothing meant for a broker's earlier life is repeated.

A broker whose process seems to be gone is reported (read ``suspicion.py``).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.broker.runtime.suspicion import AGAIN_MS, Suspicion, sign_of
from ottla.client.errors import ClientError
from ottla.coordinator.metadata.changes import FULL_UPDATE
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    from ottla.broker.runtime.control import ControlChannel, ControlResponse
    from ottla.broker.tasks import Tasks
    from ottla.coordinator.controller.events import AnyControlRequest, ControlRequest
    from ottla.protocol.ports import Clock

Answer = TypeVar("Answer")

logger = logging.getLogger("ottla.controller")

# So many failures in a row that somebody should look: one second or more.
_LASTING = 10


class Reports(NamedTuple):
    """Where senders tell what they see; brokers by id and, where they may be gone, generation."""

    on_answer: Callable[[int, AnyControlRequest, ControlResponse], object]
    on_suspected: Callable[[int, int], object]
    on_answers_again: Callable[[int], object]


class _Queued(NamedTuple):
    """What waits in a lane. No request asks only whether the broker is there; a future, to be told
    when its turn comes. Its turn is after so many updates of the other lane."""

    what: AnyControlRequest | asyncio.Future[None] | None
    after_updates: int = 0


class _Lane:
    """Requests that go in order, one at a time (C-11)."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[_Queued] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None
        self.suspicion = Suspicion()
        self.failure_count = 0


class _Sender:
    """Sends to one generation of one broker."""

    def __init__(self, node_id: int, generation: int) -> None:
        self.node_id = node_id
        self.generation = generation
        self.roles, self.updates = _Lane(), _Lane()
        self.has_answered = False
        self.is_suspected = False
        # Of the lane of updates; set when one is answered.
        self._queued_updates = self._answered_updates = 0
        self._moved = asyncio.Event()
        # Updates among the roles, which later ones must stay behind.
        self._updates_of_roles = 0

    @property
    def is_lost(self) -> bool:
        """Whether a connection to it broke, and nothing was answered since."""
        return self.roles.suspicion.is_lost or self.updates.suspicion.is_lost

    def put(self, what: AnyControlRequest | asyncio.Future[None] | None) -> None:
        """Queue it behind what it must not overtake."""
        if isinstance(what, UpdateMetadataRequest):
            if what.type != FULL_UPDATE and self._updates_of_roles == 0:
                self._queued_updates += 1
                self.updates.queue.put_nowait(_Queued(what))
                return
            self._updates_of_roles += 1
        self.roles.queue.put_nowait(_Queued(what, self._queued_updates))

    async def turn_of(self, queued: _Queued) -> None:
        """Wait until all updates are answered that it must not overtake."""
        while self._answered_updates < queued.after_updates:
            self._moved.clear()
            await self._moved.wait()

    def done(self, lane: _Lane, request: AnyControlRequest) -> None:
        """The request is answered."""
        if lane is self.updates:
            self._answered_updates += 1
            self._moved.set()
        elif isinstance(request, UpdateMetadataRequest):
            self._updates_of_roles -= 1

    def failed(self, lane: _Lane, error: Exception) -> bool:
        """Take in why nothing got through; whether the broker is to be suspected now."""
        is_dead = lane.suspicion.failed(sign_of(error), has_answered=self.has_answered)
        is_new = is_dead and not self.is_suspected
        self.is_suspected = self.is_suspected or is_dead
        return is_new

    def answered(self, lane: _Lane) -> bool:
        """The broker is there; whether it was suspected."""
        was_suspected = self.is_suspected
        self.has_answered = True
        self.is_suspected = False
        for each in (self.roles, self.updates):
            each.suspicion.answered()
        lane.failure_count = 0
        return was_suspected


class Senders:
    """Owned by one controllership."""

    def __init__(
        self,
        channel: ControlChannel,
        clock: Clock,
        tasks: Tasks,
        reports: Reports,
        doubted: frozenset[int] = frozenset(),
    ) -> None:
        """``doubted``: brokers whose connections somebody has seen break already."""
        self._doubted = doubted
        self._channel = channel
        self._clock = clock
        self._tasks = tasks
        self._reports = reports
        self._senders: dict[int, _Sender] = {}
        channel.on_lost = self._on_lost

    def send(self, messages: Iterable[ControlRequest]) -> None:
        """Queue the requests; the order per broker is kept."""
        for message in messages:
            generation = message.request.broker_epoch
            sender = self._senders.get(message.node_id)
            if sender is None or sender.generation != generation:
                sender = self._open(message.node_id, generation)
            sender.put(message.request)

    def told(self) -> dict[int, asyncio.Future[None]]:
        """For each broker that answers a future: done when it has answered all that was queued."""
        found = {}
        for node_id, sender in sorted(self._senders.items()):
            if sender.has_answered and not sender.is_lost and not sender.is_suspected:
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                sender.put(future)
                found[node_id] = future
        return found

    def keep_only(self, live: Collection[int]) -> None:
        """Stop sending to brokers that are gone."""
        for node_id in sorted(self._senders.keys() - set(live)):
            self._close(node_id)

    def stop(self) -> None:
        """Nothing leaves after this."""
        for node_id in sorted(self._senders):
            self._close(node_id)

    def _open(self, node_id: int, generation: int) -> _Sender:
        self._close(node_id)
        sender = self._senders[node_id] = _Sender(node_id, generation)
        sender.has_answered = node_id in self._doubted
        for lane in (sender.roles, sender.updates):
            lane.suspicion.is_lost = sender.has_answered
            name = f"controller to broker {node_id}"
            lane.task = self._tasks.spawn(name, self._run(sender, lane))
        return sender

    def _close(self, node_id: int) -> None:
        sender = self._senders.pop(node_id, None)
        if sender is None:
            return
        for lane in (sender.roles, sender.updates):
            if lane.task is not None:
                lane.task.cancel()

    def _on_lost(self, node_id: int) -> None:
        """A connection broke while nothing was on it: see whether anybody is there."""
        sender = self._senders.get(node_id)
        if sender is not None and sender.has_answered and sender.roles.queue.empty():
            sender.roles.suspicion.is_lost = True
            sender.put(None)

    async def _run(self, sender: _Sender, lane: _Lane) -> None:
        while True:
            queued = await lane.queue.get()
            if queued.what is None:
                reach = partial(self._channel.reach, sender.node_id)
                await self._repeated(sender, lane, reach)
                continue
            await sender.turn_of(queued)
            if isinstance(queued.what, asyncio.Future):
                if not queued.what.done():
                    queued.what.set_result(None)
                continue
            send = partial(self._channel.send, sender.node_id, queued.what)
            response = await self._repeated(sender, lane, send)
            if error_code(response.error_code) is ErrorCode.STALE_BROKER_EPOCH:
                # The broker has restarted; its new registration starts another sender.
                return
            sender.done(lane, queued.what)
            self._reports.on_answer(sender.node_id, queued.what, response)

    async def _repeated(
        self, sender: _Sender, lane: _Lane, attempt: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """Until it succeeds: repeating is safe, giving up would leave a broker behind."""
        while True:
            try:
                answer = await attempt()
            except (OSError, KafkaError, ClientError) as error:
                # Also somebody else who has the address of a broker that is gone, and speaks
                # other APIs: that is no reason for this broker to stop.
                # One that stops or starts is no news, and what lasts is told once: it is tried
                # ten times a second for as long as it is registered.
                lane.failure_count += 1
                lasts = lane.failure_count == _LASTING and not sender.is_suspected
                level = logging.WARNING if lasts else logging.DEBUG
                logger.log(
                    level, "broker %d does not answer the controller: %s", sender.node_id, error
                )
                if sender.failed(lane, error):
                    logger.warning("broker %d seems to be dead: %s", sender.node_id, error)
                    self._reports.on_suspected(sender.node_id, sender.generation)
                await self._clock.sleep(AGAIN_MS)
            else:
                if sender.answered(lane):
                    self._reports.on_answers_again(sender.node_id)
                return answer
