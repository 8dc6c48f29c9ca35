"""Background jobs of a producer or consumer: connections and fresh metadata.

Each job runs in a task of its own, at most once at a time, so a broker that does not answer never
holds up the others; when a job ends, the loop is woken.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.process.tasks import ClientTasks
from ottla.wire.errors import AuthenticationFailed, ClientError, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.cluster.private_pool import OwnPool
    from ottla.wire.pool import Pool

logger = logging.getLogger(__name__)


class Upkeep:
    """Owned by one producer or consumer; ``stop`` it in the end."""

    def __init__(
        self,
        cluster: ClusterClient,
        wake: Callable[[], None],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._cluster = cluster
        self._wake = wake
        self._tasks = ClientTasks(on_crash)
        # Run the owner's loop; end it and all jobs.
        self.run, self.stop = self._tasks.start, self._tasks.stop
        # Set when no broker accepts this client any more; the owner takes it.
        self.refusal: AuthenticationFailed | None = None

    def start_job(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the job unless it is running."""
        self._tasks.start_once(name, work, self._wake)

    def connect(
        self,
        node_id: int,
        on_failure: Callable[[int], None] | None = None,
        own: OwnPool | None = None,
    ) -> None:
        """Connect to the broker, in the shared pool or ``own``; call ``on_failure`` if it fails."""
        name = "connect" if own is None else own.name
        pool = self._cluster.pool if own is None else own
        self.start_job(f"{name} to {node_id}", partial(self._connect, node_id, on_failure, pool))

    def refresh(self, topics: Iterable[str]) -> None:
        """Refresh these topics, and all others that are followed."""
        self._cluster.follow(topics)
        self.start_job("refresh", self._refresh)

    async def _connect(
        self, node_id: int, on_failure: Callable[[int], None] | None, pool: Pool | OwnPool
    ) -> None:
        try:
            await pool.connection(node_id)
            return
        except TransportError as error:
            logger.info("%s", error)
        except KeyError:
            # The broker has left the cluster since the metadata was read.
            pass
        self._cluster.mark_stale()
        if on_failure is not None:
            on_failure(node_id)

    async def _refresh(self) -> None:
        self._cluster.mark_stale()
        try:
            await self._cluster.refresh()
        except AuthenticationFailed as error:
            if self._cluster.all_refuse:
                # A deleted user, or a certificate that has expired.
                logger.warning("no broker accepts this client: %s", error)
                self.refusal = error
            else:
                logger.info("cannot refresh the metadata, and others are down: %s", error)
        except ClientError as error:
            logger.info("cannot refresh the metadata: %s", error)
        self._wake()
        # An election takes a moment: asking in a tight loop would only slow it down.
        await self._cluster.pause(1)
