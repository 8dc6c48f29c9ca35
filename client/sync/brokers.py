"""Blocking BrokerAdmin: ``client/administration/brokers.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.administration.brokers import BrokerAdmin as AsyncBrokerAdmin
    from ottla.client.administration.brokers import LogDirView, RegisteredBroker
    from ottla.client.process.loop_thread import LoopThread
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.api import VersionRange
    from ottla.wire.errors import ClientError, RequestRefused


class BrokerAdmin(Face):
    """What an Admin asks of brokers one by one; without ids of all that the cluster lists."""

    def __init__(self, inner: AsyncBrokerAdmin, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def api_versions(
        self, brokers: Iterable[int] | None = None
    ) -> dict[int, dict[int, VersionRange] | ClientError]:
        """The versions of each request that a broker takes, by API key."""
        return self._run(self._inner.api_versions(brokers))

    def registered(self) -> list[RegisteredBroker]:
        """All brokers by their id, also those that clients are not told of, from brokers that know
        (KIP-1073)."""
        return self._run(self._inner.registered())

    def log_dirs(
        self, brokers: Iterable[int] | None = None, topics: Iterable[str] | None = None
    ) -> dict[int, list[LogDirView] | ClientError]:
        """The directories of each broker with what lies in them, or with these topics only."""
        return self._run(self._inner.log_dirs(brokers, topics))

    def move_replicas(
        self, broker_id: int, directories: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, RequestRefused | None]:
        """Move replicas of one broker to other directories of it, by their paths (KIP-113)."""
        return self._run(self._inner.move_replicas(broker_id, directories))
