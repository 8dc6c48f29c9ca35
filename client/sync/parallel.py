"""Blocking ParallelRun: ``client/parallel/parallel.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from ottla.client.parallel.parallel import Counts
    from ottla.client.parallel.parallel import ParallelRun as AsyncParallelRun
    from ottla.client.process.loop_thread import LoopThread
    from ottla.protocol.ids import TopicPartition


class ParallelRun(Face):
    """A run of many handlers: call ``run`` once, to begin it and to wait for its end."""

    def __init__(self, inner: AsyncParallelRun, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def run(self) -> None:
        """Begin the run and wait for its end.

        Raises:
            HandlerFailed: A handler failed and ``on_error`` says to stop.
            ClientError: As ``poll``; or the run has begun already, or another run is in progress.
        """
        self._run(self._inner.run())

    def stop(self) -> None:
        """Begin no more records; the run ends when the running handlers are done."""
        self._call(lambda: self._inner.stop())

    @property
    def counts(self) -> Counts:
        """The progress so far."""
        return self._call(lambda: self._inner.counts)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the first unfinished offset of each partition. A consumer without a group stores
        them itself."""
        return self._call(lambda: self._inner.positions())

    def commit(self) -> None:
        """Commit the progress now.

        Raises:
            CommitFailed: Another member has the partitions now.
            RequestRefused: The coordinator refused.
            TransportError: The coordinator did not answer.
        """
        self._run(self._inner.commit())
