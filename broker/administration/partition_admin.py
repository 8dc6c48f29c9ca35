"""What is asked of the controller about partitions: elections, moves of replicas, the relief of a
broker that is about to stop, and the end of one that will not come back.

REQUEST_TIMED_OUT means that the outcome is unknown, never that it failed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.coordinator.controller.events import (
    AlterMoves,
    ElectLeaders,
    Event,
    ShutdownAsked,
    UnregisterBroker,
)
from ottla.coordinator.controller.specs import MoveSpec as MoveSpec
from ottla.coordinator.controller.specs import PartitionResult as PartitionResult
from ottla.coordinator.controller.specs import ShutdownResult as ShutdownResult
from ottla.coordinator.controller.specs import UnregisterResult as UnregisterResult
from ottla.coordinator.metadata.image import NO_LEADER, MetadataImage
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ottla.broker.controlling.controller import ControllerCandidate
    from ottla.broker.controlling.controllership import Controllership
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.metadata.image import PartitionState
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock

# A broker that hangs must not hold up what concerns all.
TOLD_MS_MAX = 1_000.0
_NOT_HERE = "this broker is not the controller"
_UNKNOWN = "not completed in time; the change may still take effect"


@dataclass(frozen=True, slots=True)
class PartitionAdmin:
    """Owned by the server; handlers call it, on the broker that is the controller."""

    controller: ControllerCandidate
    metadata: MetadataCache
    clock: Clock

    async def elect_leaders(
        self,
        partitions: Sequence[TopicPartition] | None,
        *,
        allow_unclean: bool,
        timeout_ms: float,
    ) -> list[PartitionResult]:
        """Give partitions their preferred leader, or, if they have none, any (KIP-460).

        Without ``partitions`` all that need it. Answers when this broker's metadata shows the
        leaders. Raises KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT."""
        deadline_ms = self.clock.now_ms() + timeout_ms
        items = None if partitions is None else tuple(partitions)
        results = await self._ask(ElectLeaders(items, allow_unclean), deadline_ms)
        elected = [one.partition for one in results if one.error_code is ErrorCode.NONE]

        def shown(image: MetadataImage) -> bool:
            return all(_has_leader(image, item, is_any=allow_unclean) for item in elected)

        if await self.metadata.wait_for(shown, deadline_ms - self.clock.now_ms()):
            return list(results)
        unknown = ErrorCode.REQUEST_TIMED_OUT
        return [
            PartitionResult(one.partition, unknown, _UNKNOWN)
            if one.error_code is ErrorCode.NONE
            else one
            for one in results
        ]

    async def alter_moves(
        self, moves: Iterable[MoveSpec], *, allow_factor_change: bool, timeout_ms: float
    ) -> list[PartitionResult]:
        """Begin moves or give them up (KIP-455); one result per move, in their order.

        Answers when they have begun. Raises KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT."""
        event = AlterMoves(tuple(moves), allow_factor_change)
        return list(await self._ask(event, self.clock.now_ms() + timeout_ms))

    def list_moves(
        self, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, PartitionState]:
        """The moves under way, of these partitions or of all. Raises KafkaError: NOT_CONTROLLER."""
        machine = self._current().machine
        wanted = machine.moving if partitions is None else machine.moving.intersection(partitions)
        found = {item: machine.image.partition(*item) for item in sorted(wanted)}
        return {item: state for item, state in found.items() if state is not None}

    async def relieve(self, node_id: int, generation: int, timeout_ms: float) -> ShutdownResult:
        """Take away what a broker has, as it is about to stop; answer with what it still leads.

        ``generation``: its broker epoch, -1 if it does not say. It is given nothing until it
        registers anew. Raises KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT."""
        event = ShutdownAsked(node_id, generation)
        deadline_ms = self.clock.now_ms() + timeout_ms
        result: ShutdownResult = await self._ask(event, deadline_ms)
        # Clients that ask a broker which has not heard of it would be sent to the one that stops.
        until_ms = min(deadline_ms, self.clock.now_ms() + TOLD_MS_MAX)
        for future in self._current().told():
            await done_by(future, self.clock, until_ms)
        return result

    async def unregister(self, node_id: int, timeout_ms: float) -> UnregisterResult:
        """Forget a broker that will not come back; refused while it is registered.

        Raises KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT."""
        deadline_ms = self.clock.now_ms() + timeout_ms
        result: UnregisterResult = await self._ask(UnregisterBroker(node_id), deadline_ms)
        return result

    def _current(self) -> Controllership:
        current = self.controller.controllership
        if current is None or not current.is_complete:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, _NOT_HERE)
        return current

    async def _ask(self, event: Event, deadline_ms: float) -> Any:
        async def prepare() -> Event:
            return event

        reply = self._current().ask(prepare)
        if not await done_by(reply, self.clock, deadline_ms):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, _UNKNOWN)
        return reply.result()


async def done_by(reply: asyncio.Future[Any], clock: Clock, deadline_ms: float) -> bool:
    """Wait, and leave the reply alone: what was asked for goes on (P-04)."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_future: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    reply.add_done_callback(wake)
    timer = clock.call_at(deadline_ms, wake)
    try:
        await waiter
    finally:
        timer.cancel()
        reply.remove_done_callback(wake)
    return reply.done()


def _has_leader(image: MetadataImage, item: TopicPartition, *, is_any: bool) -> bool:
    state = image.partition(*item)
    # A partition that was deleted meanwhile will never show it.
    return state is None or (
        state.leader != NO_LEADER if is_any else state.leader == state.replicas[0]
    )
