"""Rebalance listeners of blocking programs: they run in the thread that polls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.group.rebalance_listener import RebalanceListener, check_listener
from ottla.client.process.loop_thread import in_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ids import TopicPartition


class CallerListener(RebalanceListener):
    """Hands each call to the thread that waits for the poll, where ``commit`` and ``seek`` of the
    same consumer can be called as anywhere else."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._tell(self._listener.on_assigned, partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._tell(self._listener.on_revoked, partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._tell(self._listener.on_lost, partitions)

    async def _tell(
        self,
        method: Callable[[Sequence[TopicPartition]], object],
        partitions: Sequence[TopicPartition],
    ) -> None:
        answer = await in_caller(method, partitions)
        if answer is not None:
            raise TypeError("a listener of ottla.sync has plain methods, not coroutines")


def for_caller(listener: RebalanceListener | None) -> RebalanceListener | None:
    """The listener as the consumer behind wants it."""
    check_listener(listener)
    return None if listener is None else CallerListener(listener)
