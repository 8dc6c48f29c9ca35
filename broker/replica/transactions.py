"""Open and just ended transactions of one partition, and the last stable offset.

A transaction opens with its first batch and ends with its marker. Until the marker itself is below
the high watermark it may still be truncated, and the transaction be open again: so "ended but not
replicated" is a separate state that still holds back the last stable offset (hazard T-17).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class CompletedTransaction(NamedTuple):
    """``last_offset`` is that of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    # The last stable offset right after this marker, as stored in the transaction index.
    last_stable_offset: int


class PartitionTransactions:
    """Owned by the producer table, which feeds it every batch of the log in order."""

    __slots__ = ("_first_unstable", "_open", "ended", "on_begin", "settled_offset")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        # Those whose markers wait to be replicated.
        self.ended: list[CompletedTransaction] = []
        self._first_unstable: int | None = None
        # The high watermark when it was last looked at.
        self.settled_offset = 0
        # Called when a transaction is opened.
        self.on_begin: Callable[[], object] | None = None

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction whose outcome is not settled, if any."""
        return self._first_unstable

    def awaits(self, producer_id: int) -> bool:
        """Whether a marker of this producer waits to be replicated."""
        return any(done.producer_id == producer_id for done in self.ended)

    @property
    def open_transactions(self) -> dict[int, int]:
        """First offset by producer id."""
        return dict(self._open)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where read_committed readers stop, for that high watermark."""
        unstable = self._first_unstable
        return high_watermark if unstable is None else min(high_watermark, unstable)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """The producer has written its first batch of a transaction."""
        assert producer_id not in self._open
        self._open[producer_id] = first_offset
        self._refresh()
        unstable = self._first_unstable
        assert unstable is not None, "an open transaction holds the last stable offset back (T-17)"
        assert unstable <= first_offset, (unstable, first_offset)
        if self.on_begin is not None:
            self.on_begin()

    def end(
        self, producer_id: int, marker_offset: int, *, is_aborted: bool
    ) -> CompletedTransaction | None:
        """The producer's marker was appended. None if nothing was open: the marker is harmless."""
        first_offset = self._open.get(producer_id)
        if first_offset is None:
            return None
        assert first_offset < marker_offset
        del self._open[producer_id]
        # As in Kafka, the index entry considers open transactions only, not unreplicated markers.
        # The high watermark is compared with the first marker only.
        assert not self.ended or self.ended[-1].last_offset < marker_offset
        stable = min(self._open.values(), default=marker_offset + 1)
        done = CompletedTransaction(producer_id, first_offset, marker_offset, is_aborted, stable)
        self.ended.append(done)
        self._refresh()
        return done

    def on_high_watermark(self, high_watermark: int) -> bool:
        """Markers below it are settled for good; True if the first unstable offset has moved."""
        self.settled_offset = high_watermark
        if not self.ended or self.ended[0].last_offset >= high_watermark:
            return False
        self.ended = [done for done in self.ended if done.last_offset >= high_watermark]
        return self._refresh()

    def clear(self) -> None:
        """Forget everything; the log is about to be replayed."""
        self._open.clear()
        self.ended.clear()
        self._refresh()
        assert self._first_unstable is None, "the replay begins without transactions"

    def _refresh(self) -> bool:
        before = self._first_unstable
        firsts = [*self._open.values(), *(done.first_offset for done in self.ended)]
        self._first_unstable = min(firsts, default=None)
        return before != self._first_unstable
