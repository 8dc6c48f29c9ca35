"""The controller's requests on their way to the brokers: one queue and one sender per broker.

Bound to one controllership and, each sender, to one generation of its broker: nothing of a
resigned controller leaves any more (C-04), nothing meant for a broker's earlier life is repeated.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.client.errors import TransportError
from ottla.protocol.errors import ErrorCode, KafkaError, error_code

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ottla.broker.runtime.control import ControlChannel, ControlResponse
    from ottla.broker.tasks import Tasks
    from ottla.coordinator.controller.events import AnyControlRequest, ControlRequest
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.controller")

_RETRY_MS = 100


class _Sender:
    """Sends to one generation of one broker, in order, one at a time (C-11)."""

    def __init__(self, node_id: int, generation: int) -> None:
        self.node_id = node_id
        self.generation = generation
        self.queue: asyncio.Queue[AnyControlRequest] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None


class Senders:
    """Owned by one controllership."""

    def __init__(
        self,
        channel: ControlChannel,
        clock: Clock,
        tasks: Tasks,
        on_answer: Callable[[int, AnyControlRequest, ControlResponse], object],
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._tasks = tasks
        self._on_answer = on_answer
        self._senders: dict[int, _Sender] = {}

    def send(self, messages: Iterable[ControlRequest]) -> None:
        """Queue the requests; the order per broker is kept."""
        for message in messages:
            generation = message.request.broker_epoch
            sender = self._senders.get(message.node_id)
            if sender is None or sender.generation != generation:
                sender = self._open(message.node_id, generation)
            sender.queue.put_nowait(message.request)

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
        sender.task = self._tasks.spawn(f"controller to broker {node_id}", self._run(sender))
        return sender

    def _close(self, node_id: int) -> None:
        sender = self._senders.pop(node_id, None)
        if sender is not None and sender.task is not None:
            sender.task.cancel()

    async def _run(self, sender: _Sender) -> None:
        while True:
            request = await sender.queue.get()
            response = await self._deliver(sender.node_id, request)
            if error_code(response.error_code) is ErrorCode.STALE_BROKER_EPOCH:
                # The broker has restarted; its new registration starts another sender.
                return
            self._on_answer(sender.node_id, request, response)

    async def _deliver(self, node_id: int, request: AnyControlRequest) -> ControlResponse:
        """Until there is an answer: repeating is safe, giving up would leave a broker behind."""
        while True:
            try:
                return await self._channel.send(node_id, request)
            except (OSError, KafkaError, TransportError) as error:
                logger.warning("broker %d does not answer the controller: %s", node_id, error)
                await self._clock.sleep(_RETRY_MS)
