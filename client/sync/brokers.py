"""Blocking BrokerAdmin: ``client/administration/brokers.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ottla.client.administration.brokers import BrokerAdmin as AsyncBrokerAdmin
    from ottla.client.administration.brokers import LogDirView, RegisteredBroker
    from ottla.client.process.loop_thread import LoopThread
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.api import VersionRange
    from ottla.wire.errors import ClientError, RequestRefused


class BrokerAdmin(Face):
    """Asks brokers one by one; ``Admin.brokers``. Without ids it asks all live brokers."""

    def __init__(self, inner: AsyncBrokerAdmin, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def api_versions(
        self, brokers: Iterable[int] | None = None
    ) -> dict[int, dict[int, VersionRange] | ClientError]:
        """Return the request versions that brokers support.

        Args:
            brokers: The ids of the brokers; None (default) for all.

        Returns:
            For each broker its version ranges by API key, or the error.
        """
        return self._run(self._inner.api_versions(brokers))

    def registered(self) -> list[RegisteredBroker]:
        """List all registered brokers by id, fenced ones too if the broker supports it (KIP-1073).

        Raises:
            RequestRefused: The broker refused.
        """
        return self._run(self._inner.registered())

    def log_dirs(
        self, brokers: Iterable[int] | None = None, topics: Iterable[str] | None = None
    ) -> dict[int, list[LogDirView] | ClientError]:
        """Describe the log directories of brokers.

        Args:
            brokers: The ids of the brokers; None (default) for all.
            topics: Only replicas of these topics; None (default) for all.

        Returns:
            For each broker its directories with their replicas, or the error.

        Raises:
            RequestRefused: A topic does not exist.
        """
        return self._run(self._inner.log_dirs(brokers, topics))

    def replica_ends(
        self, replicas: Mapping[int, Collection[TopicPartition]], *, reader: str | None = None
    ) -> dict[int, dict[TopicPartition, int] | ClientError]:
        """Find out where the logs of replicas end, those of followers included.

        Each broker is asked once, without repetitions.

        Args:
            replicas: The partitions to ask each broker for, by its id.
            reader: None (default) for the ends of the logs; ``"uncommitted"`` for the high
                watermarks and ``"committed"`` for the last stable offsets, which only leaders tell.

        Returns:
            For each broker the log end offsets, or the error. A replica that a broker does not
            tell about is left out.

        Raises:
            ValueError: There is no such reader.
        """
        return self._run(self._inner.replica_ends(replicas, reader=reader))

    def move_replicas(
        self, broker_id: int, directories: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, RequestRefused | None]:
        """Move replicas of one broker to other log directories of that broker (KIP-113).

        The replicas can be read and written during the move; ``log_dirs`` reports its progress. The
        replica's present directory as the target cancels a move. For a replica that the broker does
        not have yet the broker refuses, but creates it later in that directory.

        Args:
            broker_id: The broker's id.
            directories: The path of the target directory for each partition.

        Returns:
            For each partition None if its move has begun, or why it has not.

        Raises:
            ClientError: The broker did not answer, or refused the whole request.
        """
        return self._run(self._inner.move_replicas(broker_id, directories))

    def unregister(self, broker_id: int) -> None:
        """Make the cluster forget a broker that will not come back.

        The controller drops what the cluster still keeps for the broker: the records of deleted
        topics whose directories the broker has not removed. If the broker comes back all the same,
        it keeps these directories and names them in a warning. Move its replicas to other brokers
        with ``Admin.placements`` before or after that.

        Args:
            broker_id: The broker's id. The broker must be stopped.

        Raises:
            RequestRefused: The broker is running (DUPLICATE_BROKER_REGISTRATION), or the cluster
                keeps nothing for it (BROKER_ID_NOT_REGISTERED).
            ClientError: The controller did not answer.
        """
        self._run(self._inner.unregister(broker_id))
