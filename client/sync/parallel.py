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
    """Call ``run`` to begin, and to wait for its end; only once."""

    def __init__(self, inner: AsyncParallelRun, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def run(self) -> None:
        """Until it ends."""
        self._run(self._inner.run())

    def stop(self) -> None:
        """Begin no more records; the run ends when those in work are done."""
        self._call(lambda: self._inner.stop())

    @property
    def counts(self) -> Counts:
        """How far it is."""
        return self._call(lambda: self._inner.counts)

    def positions(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that is not done: to be kept by whoever reads without
        a group."""
        return self._call(lambda: self._inner.positions())

    def commit(self) -> None:
        """Store how far the run is, now."""
        self._run(self._inner.commit())
