"""Blocking Placements: ``client/administration/placements.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.client.administration.placements import ElectionType, Move, Outcomes
    from ottla.client.administration.placements import Placements as AsyncPlacements
    from ottla.client.process.loop_thread import LoopThread
    from ottla.protocol.ids import TopicPartition


class Placements(Face):
    """What an Admin does about replicas and leaders."""

    def __init__(self, inner: AsyncPlacements, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def move(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Begin to move each partition to those brokers, the preferred leader first; None stops a
        move and goes back."""
        return self._run(self._inner.move(targets))

    def moves(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Move]:
        """The moves under way, of these partitions or of all."""
        return self._run(self._inner.moves(partitions))

    def has_resigned(self, node_id: int) -> bool:
        """Whether a broker that is listed as the controller says that it is not."""
        return self._run(self._inner.has_resigned(node_id))

    def elect(
        self, kind: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> Outcomes:
        """Elect leaders of these partitions, or of all that need it; None where one was elected."""
        return self._run(self._inner.elect(kind, partitions))
