"""Sends the controller's requests to the brokers: one queue and one sender per broker.

The senders belong to one controllership, and each one to one generation of its broker: nothing of a
resigned controller is sent (C-04), and requests for an earlier process of a broker are dropped.

A broker whose process seems to have ended is reported (see ``suspicion.py``).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.controlling.suspicion import AGAIN_MS, Suspicion, sign_of
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.partitions.control import ControlChannel, ControlResponse
    from ottla.coordinator.controller.events import AnyControlRequest, ControlRequest
    from ottla.protocol.ports import Clock

Answer = TypeVar("Answer")

logger = logging.getLogger("ottla.controller")

# Consecutive failures after which a warning is logged: one second or more.
_LASTING = 10


class Reports(NamedTuple):
    """Callbacks for what senders observe; brokers by id and, if they may be dead, generation."""

    on_answer: Callable[[int, AnyControlRequest, ControlResponse], object]
    on_suspected: Callable[[int, int], object]
    on_answers_again: Callable[[int], object]


class _Sender:
    """Sends to one generation of one broker, in order, one at a time (C-11)."""

    def __init__(self, node_id: int, generation: int) -> None:
        self.node_id = node_id
        self.generation = generation
        # None only checks that the broker answers; a future is completed when its turn comes.
        self.queue: asyncio.Queue[AnyControlRequest | asyncio.Future[None] | None] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None
        self.has_answered = False
        self.suspicion = Suspicion()
        self.is_suspected = False
        self.failure_count = 0

    def failed(self, error: Exception) -> bool:
        """Handle a failed request; returns whether the broker is to be suspected now."""
        is_dead = self.suspicion.failed(sign_of(error), has_answered=self.has_answered)
        is_new = is_dead and not self.is_suspected
        self.is_suspected = self.is_suspected or is_dead
        return is_new

    def answered(self) -> bool:
        """Handle a response; returns whether the broker was suspected."""
        was_suspected = self.is_suspected
        self.has_answered = True
        self.is_suspected = False
        self.suspicion.answered()
        self.failure_count = 0
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
        """``doubted``: brokers whose connections are known to have broken."""
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
            sender.queue.put_nowait(message.request)

    def told(self) -> list[asyncio.Future[None]]:
        """Return a future for each live broker: done when it has answered all queued requests."""
        found = []
        for _node_id, sender in sorted(self._senders.items()):
            if sender.has_answered and not sender.suspicion.is_lost and not sender.is_suspected:
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                sender.queue.put_nowait(future)
                found.append(future)
        return found

    def keep_only(self, live: Collection[int]) -> None:
        """Stop sending to brokers that have left."""
        for node_id in sorted(self._senders.keys() - set(live)):
            self._close(node_id)

    def stop(self) -> None:
        """Stop all senders."""
        for node_id in sorted(self._senders):
            self._close(node_id)

    def _open(self, node_id: int, generation: int) -> _Sender:
        self._close(node_id)
        sender = self._senders[node_id] = _Sender(node_id, generation)
        sender.has_answered = sender.suspicion.is_lost = node_id in self._doubted
        sender.task = self._tasks.spawn(f"controller to broker {node_id}", self._run(sender))
        return sender

    def _close(self, node_id: int) -> None:
        sender = self._senders.pop(node_id, None)
        if sender is not None and sender.task is not None:
            sender.task.cancel()

    def _on_lost(self, node_id: int) -> None:
        """An idle connection broke: probe whether the broker still listens."""
        sender = self._senders.get(node_id)
        if sender is not None and sender.has_answered and sender.queue.empty():
            sender.suspicion.is_lost = True
            sender.queue.put_nowait(None)

    async def _run(self, sender: _Sender) -> None:
        while True:
            request = await sender.queue.get()
            if request is None:
                await self._repeated(sender, partial(self._channel.reach, sender.node_id))
                continue
            if isinstance(request, asyncio.Future):
                if not request.done():
                    request.set_result(None)
                continue
            send = partial(self._channel.send, sender.node_id, request)
            response = await self._repeated(sender, send)
            if error_code(response.error_code) is ErrorCode.STALE_BROKER_EPOCH:
                # The broker has restarted; its new registration starts another sender.
                return
            self._reports.on_answer(sender.node_id, request, response)

    async def _repeated(self, sender: _Sender, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """Retry until it succeeds: repeating is safe, giving up would leave a broker outdated."""
        while True:
            try:
                answer = await attempt()
            except (OSError, KafkaError, ClientError) as error:
                # Perhaps another process now has the address of a dead broker, and serves
                # other APIs: that is no reason for this broker to stop.
                # A stopping or starting broker is normal, and a lasting failure is logged once: the
                # sender retries ten times a second while the broker is registered.
                sender.failure_count += 1
                lasts = sender.failure_count == _LASTING and not sender.is_suspected
                level = logging.WARNING if lasts else logging.DEBUG
                logger.log(
                    level, "broker %d does not answer the controller: %s", sender.node_id, error
                )
                if sender.failed(error):
                    logger.warning("broker %d seems to be dead: %s", sender.node_id, error)
                    self._reports.on_suspected(sender.node_id, sender.generation)
                await self._clock.sleep(AGAIN_MS)
            else:
                if sender.answered():
                    self._reports.on_answers_again(sender.node_id)
                return answer
