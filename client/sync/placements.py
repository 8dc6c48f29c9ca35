"""Blocking Placements: ``client/administration/placements.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.client.administration.placements import ElectionType, Outcomes, ReplicaMove
    from ottla.client.administration.placements import Placements as AsyncPlacements
    from ottla.client.process.loop_thread import LoopThread
    from ottla.protocol.ids import TopicPartition


class Placements(Face):
    """Moves replicas and elects leaders; ``Admin.placements``."""

    def __init__(self, inner: AsyncPlacements, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def move(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Begin to move partitions to other brokers.

        Args:
            targets: The replicas of each partition, preferred leader first; None cancels a move.

        Returns:
            For each partition None if its move has begun, or why it has not.

        Raises:
            RequestRefused: The controller refused the whole request.
        """
        return self._run(self._inner.move(targets))

    def moves(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ReplicaMove]:
        """List the moves in progress.

        Args:
            partitions: The partitions to ask for; None (default) for all.

        Returns:
            The move of each partition that has one.

        Raises:
            RequestRefused: The controller refused.
        """
        return self._run(self._inner.moves(partitions))

    def has_resigned(self, node_id: int) -> bool:
        """Ask a broker that the cluster lists as the controller whether it is not.

        Args:
            node_id: The broker's id.

        Returns:
            True if the broker answers that it is not the controller.

        Raises:
            TransportError: The broker did not answer.
            UnsupportedByBroker: The broker does not support the request.
            KeyError: The cluster does not list the broker.
        """
        return self._run(self._inner.has_resigned(node_id))

    def elect(
        self, kind: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> Outcomes:
        """Elect leaders of partitions.

        Args:
            kind: Which replica to elect.
            partitions: The partitions; None (default) for all that need an election.

        Returns:
            For each partition None if a leader was elected, or why not: ELECTION_NOT_NEEDED if it
            has the wanted leader already.

        Raises:
            RequestRefused: The controller refused the whole request.
        """
        return self._run(self._inner.elect(kind, partitions))
